"use strict";
// A browser comes in at once; a preview of the link runs no scripts, and so does not use it up.
history.replaceState(null, "", "/login");
document.getElementById("login").submit();
