"""The contract as checks: hand over a part that you wrote, and be told which rule it breaks.

Each check raises an AssertionError that names the rule, what was compared, and the likely cure.
They need no test runner and nothing but the packages of the core.
"""

from jonline.testing.environments import check_oracle, check_stream
from jonline.testing.learners import Case, check_learner
from jonline.testing.optimizers import check_optimizer
from jonline.testing.spaces import check_space

__all__ = [
    "Case",
    "check_learner",
    "check_optimizer",
    "check_oracle",
    "check_space",
    "check_stream",
]
