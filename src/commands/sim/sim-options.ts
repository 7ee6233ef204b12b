/** The options of the simulator, for the command line: cli/ sees no room but this one. */
export { IGNORED_VLLM_FLAGS, parseSimOptions, SIM_OPTIONS, type SimOption } from "../../lab/simulator/options.ts";
