"""Programs are modules for the compiler's process and hold no tests."""

collect_ignore = ["programs"]
