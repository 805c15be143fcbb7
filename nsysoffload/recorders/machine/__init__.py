"""What this machine and this process have: facts that decide what can be recorded here.

Each is read below a root folder, which stands for ``/``, or from an environment; what cannot be
told is None. Nothing is judged here, see `nsysoffload.recorders.doctor`.
"""

from nsysoffload.recorders.machine.gpus import has_gpu
from nsysoffload.recorders.machine.survey import Machine, survey

__all__ = ["Machine", "has_gpu", "survey"]
