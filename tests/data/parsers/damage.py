"""Files with random damage."""

WORDS = [
    b"4294967296",
    b"-1",
    b"1e999",
    b"nan",
    b"\x00" * 8,
    b"\xff" * 4,
    b"\r",
    b'"',
    b",",
    b":",
    b"{",
    b"\n",
]


def damaged(rng, content):
    """Returns a content cut, changed, repeated or mixed in one to three places.

    Args:
      rng: `random.Random`.
      content: bytes.
    """
    for _ in range(rng.randint(1, 3)):
        a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        content = rng.choice(
            [
                content[:a],
                content[a:],
                content[:a] + content[b:],
                content[:a] + rng.choice(WORDS) + content[a:],
                content[:a] + rng.choice(WORDS) + content[b:],
                content[:a] + rng.randbytes(rng.randint(1, 9)) + content[a + 1 :],
                content[:b] + content[a:b] * rng.randint(1, 9) + content[b:],
            ]
        )
    return content
