"""What all tests share."""

from hypothesis import settings

# The first call of a kernel compiles, and would be reported as flaky. The same examples every time.
settings.register_profile("equipoise", deadline=None, derandomize=True)
settings.load_profile("equipoise")
