"""The one exception a user of flatscore is meant to read."""


class InputError(ValueError):
    """Input that flatscore refuses: a config value, a weights folder, a results file.

    The message is one paragraph that names the place, the value and the remedy. Command lines
    print it without a traceback and exit with status 2.

    Parameters
    ----------
    place
        Where the bad value stands: a file, a config key, a directory.
    problem
        What was found there and what was expected.
    remedy
        What to do about it.
    """

    def __init__(self, place: object, problem: str, remedy: str) -> None:
        self.place, self.problem, self.remedy = str(place), problem, remedy
        super().__init__(f"{place}: {problem} {remedy}")
