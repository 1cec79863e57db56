// The documents: the frame around them. They are whole without it.

import { openPage } from "./app.js";

openPage();
