"""A login's way to the server, from the configuration."""

from pathlib import Path
from typing import Literal

import pytest

from tests.providers.mcp.linking import answering, each
from tests.servers.raw_http import serving
from tooldispatchd.agent.tools.accounts import LoginError, log_in
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, McpSpec


@pytest.mark.parametrize(("transport", "method"), [("http", "POST"), ("sse", "GET")])
async def test_a_login_speaks_the_form_of_http_that_is_configured(
    tmp_path: Path, transport: Literal["http", "sse"], method: str
) -> None:
    async with serving(each(answering(b"", "404 Not Found"))) as server:
        spec = McpSpec(url=server.url, transport=transport, auth="oauth", protocol="2025-11-25")
        catalog = build_catalog(Config(mcp={"kit": spec}))
        assert isinstance(catalog, Catalog), catalog
        with pytest.raises(LoginError):
            await log_in(catalog.servers["kit"], {"XDG_STATE_HOME": str(tmp_path)}, print)
        assert server.asked[0].method == method
