// The page for an address that is none: the frame around it, and nothing to read.

import { openPage } from "./app.js";

openPage();
