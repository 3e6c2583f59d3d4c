"""What makes and checks the documents: `commands` writes the help, `checking` looks for what is stale."""
