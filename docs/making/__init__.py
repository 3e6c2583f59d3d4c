"""What makes and checks the documents: `commands` the help, `pictures` the screens, `checking` what is stale."""
