from tooldispatchd.catalog.forms.form import render_plain
from tooldispatchd.catalog.forms.rendered import Rendered
from tooldispatchd.catalog.offered import Offered


def test_the_schema_is_shown_as_it_is_and_a_title_where_there_is_one() -> None:
    schema: dict[str, object] = {"oneOf": [{"$ref": "#"}]}
    assert render_plain(Offered(name="a", input_schema=schema), "a") == Rendered(
        {"name": "a", "description": "", "input_schema": schema}
    )
    assert render_plain(Offered(name="a", title="A", input_schema=schema), "a") == Rendered(
        {"name": "a", "title": "A", "description": "", "input_schema": schema}
    )


def test_what_the_machine_cannot_enforce_is_shown_where_there_is_anything() -> None:
    offered = Offered(name="a", input_schema={}, unenforced=("network", "read"))
    assert render_plain(offered, "a") == Rendered(
        {"name": "a", "description": "", "input_schema": {}, "unenforced": ["network", "read"]}
    )
