"""What is known of PyTorch's distributed tests on the emulator (distributed_tests.py)."""

# A few of each kind, for ./run-tests.
CORNER = {
    "test_all_gather",
}

# These kill a rank on purpose: PyTorch's own test asks for no exit status of theirs.
ENDS_WITH_ANY_STATUS = {"test_ddp_has_finalized"}

# Name -> why it fails, for each implementation of the nccl back end.
OLD = {}
NEW = {}

# The same for those that fail under Cinch only.
CINCH_OLD = {}
CINCH_NEW = {}


def failures(implementation, cinch):
    known = dict(OLD if implementation == "old" else NEW)
    if cinch:
        known.update(CINCH_OLD if implementation == "old" else CINCH_NEW)
    return known
