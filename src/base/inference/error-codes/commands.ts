import type { ErrorRow } from "./row.ts";

/** Errors of the command line, and of the commands that serve no requests. */
export const COMMAND_ERRORS = {
  COMMAND_UNKNOWN: {
    exit: 2,
    cause: "Sluice has no command of this name.",
    remedy: "Correct the name; sluice --help lists all commands.",
  },
  ARGUMENT_UNEXPECTED: {
    exit: 2,
    cause: "The command got more arguments than it takes.",
    remedy: "Remove an argument, or quote a value that contains spaces.",
  },
  FLAG_UNKNOWN: {
    exit: 2,
    cause: "The command has no flag of this name.",
    remedy: "Correct the name; --help lists all flags.",
  },
  FLAG_SYNTAX: {
    exit: 2,
    cause: "A word of the command line is not a flag, or a flag and its value have the wrong form.",
    remedy: "Write the flag as --name=value.",
  },
  FLAG_VALUE: {
    exit: 2,
    cause: "The value of a flag or of an argument is not allowed.",
    remedy: "Give one of the values that the message describes.",
  },
  FLAG_MISSING: {
    exit: 2,
    cause: "A flag or an argument is missing.",
    remedy: "Add the flag or the argument that the message names.",
  },
  FLAG_CONFLICT: {
    exit: 1,
    cause: "Flags contradict each other or the configuration, or one flag needs another.",
    remedy: "Remove one of the flags that the message names, or add the missing one.",
  },
  FLAG_UNSUPPORTED: {
    exit: 1,
    cause: "Sluice knows the flag, but does not support this value or use of it.",
    remedy: "Remove the flag.",
  },
  KEYS_MISSING: {
    exit: 1,
    cause: "The gateway would listen on an address that other machines reach, and has no keys.",
    remedy: "Give --keys FILE, listen on a loopback address, or let every client in with --open.",
  },
  KEY_NAME: {
    exit: 1,
    cause: "The keys file does not have this name or id, the name exists already, or the key was revoked.",
    remedy: "Correct the name, or add a new key; sluice keys list prints the names, ids and states.",
  },
  KEYS_FILE_BUSY: {
    exit: 1,
    cause: "Another command is changing the keys file.",
    remedy: "Try again; if no other command runs, remove the lock file that the message names.",
  },
  KEYS_FILE_WRITE: {
    exit: 1,
    cause: "The keys file cannot be written.",
    remedy: "Correct the path, or let the user of the command write to its folder.",
  },
  ADMIN_UNREACHABLE: {
    exit: 1,
    cause: "No admin port answers at the address.",
    remedy: "Start the gateway or the picker, or correct the address in --admin.",
  },
  ADMIN_REFUSED: {
    exit: 1,
    cause: "The admin port requires a token, or answers only commands on its own machine.",
    remedy:
      "Give a token that may read the admin port with --token-file, or run the command on the machine of the admin port.",
  },
  ADMIN_FOREIGN: {
    exit: 1,
    cause: "The server at the address is not an admin port, or is another version of Sluice.",
    remedy: "Correct the address in --admin, or use the command of the same version.",
  },
  DECISION_UNKNOWN: {
    exit: 1,
    cause: "The process has no record of this decision, or no full record of it.",
    remedy: "Ask for a newer decision, or keep more full records with a lower --full-records-every.",
  },
  RECORD_NOT_FULL: {
    exit: 1,
    cause: "The file explains a decision, but lacks some of the data that the decision used.",
    remedy: "Save the output of sluice explain ID --full, and replay that file.",
  },
  RECORD_NOT_REPLAYABLE: {
    exit: 1,
    cause:
      "Sluice refused the recorded request before it chose an endpoint, or the configuration cannot repeat the decision.",
    remedy: "Replay the record of a routed request, with the configuration of this record.",
  },
  FILE_EXISTS: {
    exit: 1,
    cause: "The output file of the command exists already.",
    remedy: "Name another file, or allow the replacement with --force.",
  },
  FILE_NOT_WRITTEN: {
    exit: 1,
    cause: "The file cannot be written.",
    remedy: "Choose an existing folder that has free space and that the user of the command may write to.",
  },
  CHECK_UNREACHABLE: {
    exit: 2,
    cause: "The check cannot connect to the model server.",
    remedy: "Start the model server, or correct the URL.",
    hint: true,
  },
  CONFIG_MIGRATION: {
    exit: 1,
    cause: "The migrated configuration would not mean the same as the old one.",
    remedy: "Edit the configuration by hand.",
  },
  ENVOY_RESOURCES: {
    exit: 1,
    cause: "The manifests have no InferencePool that matches the flags.",
    remedy: "Add the pool to the manifests, or correct --pool-name and --pool-namespace.",
  },
  ENVOY_PICKER: {
    exit: 1,
    cause: "The InferencePool names no endpoint picker that Envoy can connect to.",
    remedy: "Correct the picker reference of the pool, or give --picker host:port.",
  },
  ENVOY_ENDPOINTS: {
    exit: 1,
    cause: "The variant override-host needs a list of model servers with IP addresses.",
    remedy: "In the file of --endpoints, give the IP address and the port of each model server.",
  },
  SIM_OPTION: {
    exit: 2,
    cause: "The simulator does not know an option, or does not accept its value.",
    remedy: "Correct the option; sluice sim --help lists all options.",
  },
  SIM_API: {
    exit: 1,
    cause: "The simulator refuses the request, or injects a configured failure.",
    remedy: "Correct the request, or change the failure options of the simulator.",
  },
  WORKLOAD_INVALID: {
    exit: 1,
    cause: "A number of the workload is outside its range.",
    remedy: "Give a number in the range that the message names.",
  },
  SIMULATE_REPORT: {
    exit: 1,
    cause: "The study is done, but its report cannot be written.",
    remedy: "Make the file of --html writable or free disk space, then run the study again.",
    hint: true,
  },
  REPLAY_INPUT: {
    exit: 2,
    cause: "The files hold nothing to replay.",
    remedy: "Give full records of decisions, or an access log in a supported format.",
  },
  TRACE_INPUT: {
    exit: 2,
    cause: "Sluice does not know the format of the trace, or cannot use any of its rows.",
    remedy: "Give a trace in a format that the message names, or correct the row that the message names.",
  },
  DEMO_SERVER: {
    exit: 1,
    cause: "A process of the demo ended before it was ready.",
    remedy: "Remove the cause that the process printed, then start the demo again.",
  },
  NO_FREE_PORT: {
    exit: 1,
    cause: "The demo finds no free port in its range.",
    remedy: "Stop a program that listens on one of the ports that the message names.",
    hint: true,
  },
} as const satisfies Record<string, ErrorRow>;
