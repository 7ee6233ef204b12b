/** The most milliseconds of `streams.rest`. In a file of its own, so that the flags do not load the schema of all settings. */
export const LONGEST_STREAM_REST = 1000;
