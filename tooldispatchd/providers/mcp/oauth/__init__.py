"""OAuth 2.1 for servers behind URLs: the SDK's flows on our wire, and the tokens that come of them."""
