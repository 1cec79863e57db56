// A page of a system that this version does not have: nothing to load, only the frame and its connection state.

import { openPage } from "./app.js";

openPage({ topics: ["viewer"] });
