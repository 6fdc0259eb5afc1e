"""What the demo and the tests put on stage: a host with the plugin, chats, real tool servers."""
