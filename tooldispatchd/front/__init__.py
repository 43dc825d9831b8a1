"""The epoll set under trio: channels, buffers, backpressure."""
