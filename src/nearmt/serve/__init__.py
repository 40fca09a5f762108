"""A server: translation, memories, documents and corrections over HTTP."""
