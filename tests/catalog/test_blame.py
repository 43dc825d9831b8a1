"""The walk to the place that is to blame, with checks that are counted."""

from tooldispatchd.catalog.blame import MAX_WORK, Blame, IsValid, Walk

TREE: dict[str, object] = {
    "anyOf": [
        {"type": "object", "properties": {"l": {"$ref": "#"}}},
        {"type": "object", "properties": {"l": {"$ref": "#"}}},
    ]
}


class Asked:
    """Checks that refuse every part and pass everything else, and count how often they are asked."""

    def __init__(self) -> None:
        self.count = 0

    def refuse(self, _value: object) -> bool:
        self.count += 1
        return False

    def accept(self, _value: object) -> bool:
        self.count += 1
        return True

    def compile_part(self, _pointer: str) -> IsValid:
        return self.refuse

    def compile_alone(self, _schema: dict[str, object]) -> IsValid:
        return self.accept

    def walk(self, parts: int) -> Walk:
        return Walk(TREE, parts=parts, compile_part=self.compile_part, compile_alone=self.compile_alone)


def left(depth: int) -> object:
    value: object = {}
    for _ in range(depth):
        value = {"l": value}
    return value


def test_a_child_that_all_alternatives_blame_is_to_blame() -> None:
    assert Asked().walk(1).blame(left(2)) == Blame(("l", "l"), {}, None, "anyOf")


def test_what_may_be_asked_of_the_deepest_value_is_bounded() -> None:
    asked = Asked()
    blame = asked.walk(1).blame(left(200))
    assert blame.keyword == "anyOf"
    assert asked.count < MAX_WORK


def test_a_schema_too_large_to_be_compiled_again_is_not() -> None:
    assert Asked().walk(MAX_WORK + 1).blame(left(2)) == Blame((), left(2), None, "anyOf")
