/** How plugins take a time in their parameters: a Go duration in, milliseconds out. */
export { duration } from "../document/duration.ts";
