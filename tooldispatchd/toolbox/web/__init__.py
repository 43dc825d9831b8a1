"""The tools that reach the web: pages behind URLs, and search engines."""
