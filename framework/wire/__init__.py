"""RocketMQ's remoting protocol: bytes to commands and back. Pure: no clock, socket, task or chance."""
