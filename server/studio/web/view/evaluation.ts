// The entry of the report of an evaluation, which has a style and no script.

import "./evaluation.css";
