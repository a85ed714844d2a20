"""A mutation: one wrong edit of one file, and the tests that have to notice it."""

from dataclasses import dataclass


class Moved(Exception):
    """The text of a mutation is not where the list says: the list follows the code, never silently."""


@dataclass(frozen=True)
class Mutation:
    name: str  # also that of a file
    file: str  # from the top of the repository
    old: str  # occurs exactly once
    new: str
    program: str  # of the tests
    tests: str  # filter of GoogleTest, quick ones; one of them fails

    def of(self, text):
        """The file's text with the mutation in force."""
        count = text.count(self.old)
        if count != 1:
            raise Moved(f"{self.name}: expected its text once in {self.file}, got it {count} times: "
                        f"{self.old.strip().splitlines()[0].strip()}")
        return text.replace(self.old, self.new)
