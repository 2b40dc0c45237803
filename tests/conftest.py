"""What all tests share."""

from hypothesis import settings

# The first call of a kernel compiles, and would be reported as flaky.
settings.register_profile("equipoise", deadline=None)
settings.load_profile("equipoise")
