"""What can be recorded here, and what is in the way: facts of the machine, judged."""

from nsysoffload.recorders.doctor.check import Check
from nsysoffload.recorders.doctor.diagnosis import Diagnosis, examine

__all__ = ["Check", "Diagnosis", "examine"]
