"""Makes the documents and checks them: `commands`, `pictures` and `page`; `checking` and `shown`."""
