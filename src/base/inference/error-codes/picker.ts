import type { ErrorRow } from "./row.ts";

/** Errors of plugins, of the configuration that joins them, and of the decisions they make. */
export const PICKER_ERRORS = {
  PLUGIN_LOAD: {
    exit: 1,
    cause: "A plugin module cannot be loaded.",
    remedy: "Correct the module so that it loads without an error and exports its plugins.",
  },
  PLUGIN_CREATE: {
    exit: 1,
    cause: "The code of a plugin failed, or returned a wrong value, when Sluice created or called the plugin.",
    remedy: "Correct the parameters, or the function of the plugin that the message names.",
  },
  KV_EVENTS_CLIENT_MISSING: {
    exit: 1,
    cause: "The package that receives KV-cache events is not installed.",
    remedy: "Run npm install zeromq@6.",
  },
  PLUGIN_TYPE_TAKEN: {
    exit: 1,
    cause: "Two plugins, gates or metric sources use the same type name.",
    remedy: "Rename one of the two types.",
    hint: true,
  },
  PLUGIN_TYPE_MISSING: {
    exit: 1,
    cause: "The process lacks a plugin type that the default configuration needs.",
    remedy: "Report the message to the project: Sluice registers all default types itself.",
  },
  PLUGIN_NAME_TAKEN: {
    exit: 1,
    cause: "Two plugins have the same name.",
    remedy: "Give each plugin a different name.",
    hint: true,
  },
  PLUGIN_UNKNOWN: {
    exit: 1,
    cause: "A plugin refers to another plugin that is not configured or has the wrong kind.",
    remedy: "Add the other plugin to the configuration, or correct the reference.",
    hint: true,
  },
  PLUGIN_CYCLE: {
    exit: 1,
    cause: "Plugins depend on each other in a cycle.",
    remedy: "Remove one of the dependencies in the cycle.",
    hint: true,
  },
  PLUGIN_NOT_IN_PROFILE: {
    exit: 1,
    cause: "A profile lists a plugin of a kind that does not work in profiles.",
    remedy: "Remove the plugin from the profile.",
    hint: true,
  },
  PROFILES_MISSING: {
    exit: 1,
    cause: "The configuration has no scheduling profile.",
    remedy: "Add a profile to the configuration.",
  },
  HANDLER_MISSING: {
    exit: 1,
    cause: "The configuration has several profiles, but no profile handler.",
    remedy: "Add a profile handler to the plugins, or keep only one profile.",
    hint: true,
  },
  PICKER_TAKEN: {
    exit: 1,
    cause: "A profile has two picker plugins.",
    remedy: "Remove one of the two from the profile.",
  },
  WEIGHT_INVALID: {
    exit: 1,
    cause: "The weight of a scorer is negative or is not a number.",
    remedy: "Give the scorer a weight of 0 or more.",
  },
  PRODUCER_MISSING: {
    exit: 1,
    cause: "A plugin requires data that no producer writes.",
    remedy: "Add a producer of this data to the plugins.",
    hint: true,
  },
  BINDING_AMBIGUOUS: {
    exit: 1,
    cause: "Two plugins of one profile handler read the same data from different producers.",
    remedy: "Name the same producer in both plugins.",
  },
  EXPRESSION_INVALID: {
    exit: 1,
    cause: "An expression has a syntax error or the wrong result type.",
    remedy: "Correct the expression at the line and the column in the message.",
  },
  EXPRESSION_FAILED: {
    exit: 1,
    cause: "An expression of a request-attribute-reporter failed for one request, or gave no number.",
    remedy: "Correct the expression so that it gives a number for every request.",
  },
  COLUMN_MISSING: {
    exit: 1,
    cause: "The code of a plugin reads a column that no configured producer writes.",
    remedy: "Declare the column in requires of the plugin, or read it with optionalColumn if it may be missing.",
  },
  DATA_UNDECLARED: {
    exit: 1,
    cause: "A plugin reads data that it does not declare.",
    remedy: "List the key of the data in requires or optional of the plugin.",
  },
  DATA_NOT_PRODUCED: {
    exit: 1,
    cause: "A plugin writes an attribute that it does not declare.",
    remedy: "List the key of the attribute in produces of the plugin.",
  },
  PLUGIN_ASYNC: {
    exit: 1,
    cause: "A plugin returned a promise where a decision needs the result at once.",
    remedy: "Return the result itself, and wait only in prepare of a producer.",
  },
  PLUGIN_ANSWER: {
    exit: 1,
    cause: "A plugin returned a value of the wrong type.",
    remedy: "Return the type that the message names.",
  },
  PLUGIN_HEADERS: {
    exit: 1,
    cause: "A plugin set a header that cannot be sent, or changed too many headers.",
    remedy: "Correct the headers that the plugin sets and removes.",
  },
  PLUGIN_METADATA: {
    exit: 1,
    cause: "A plugin set a metadata value that is not a string, a finite number or a boolean.",
    remedy: "Correct the metadata that the plugin sets.",
  },
  OUTCOME_UNKNOWN: {
    exit: 1,
    cause: "A plugin refused a request with an unknown reason, or without a text for the client.",
    remedy: "Give one of the reasons that the message lists, and a text.",
  },
  PREPARE_TIMEOUT: {
    exit: 1,
    cause: "A producer did not finish its preparation in time, so Sluice decided without its data.",
    remedy: "Make the producer faster, or give it more time.",
  },
  PREPARE_LIMIT: {
    exit: 1,
    cause: "Too many requests wait for producers, so Sluice decided without their data.",
    remedy: "Make the producers faster, or add replicas.",
  },
  BURST_FULL: {
    exit: 1,
    cause: "A window of burst-prefix-cache-producer has reached its limit, so this request did not wait for others.",
    remedy: "Raise maxBatchSize, or shorten windowDurationMs.",
  },
  PREPARE_ABORTED: {
    exit: 1,
    cause: "The request ended while a producer prepared data for it.",
    remedy: "No action is needed: with this error, Sluice tells the producer to stop.",
  },
  RENDER_FAILED: {
    exit: 1,
    cause: "The render server cannot be reached.",
    remedy: "Start the render server, or correct its URL in the configuration.",
  },
  RENDER_STATUS: {
    exit: 1,
    cause: "The render server answered with an error status.",
    remedy: "Read the log of the render server, and check that it serves this model.",
  },
  RENDER_ANSWER: {
    exit: 1,
    cause: "The render server sent an answer that Sluice cannot use.",
    remedy: "Check that the URL is that of a vLLM render server.",
  },
  RENDER_TIMEOUT: {
    exit: 1,
    cause: "The render server did not answer in time.",
    remedy: "Give the render server more capacity, or raise the timeout in the configuration.",
  },
  RENDER_LIMIT: {
    exit: 1,
    cause: "Too many bytes of prompts wait for the render server.",
    remedy: "Give the render server more capacity, or add replicas of the picker.",
  },
  TOKENIZER_MODEL: {
    exit: 1,
    cause: "Sluice has no tokenizer for the model of the request, and decided without tokens.",
    remedy: "Add the model to modelTokenizerMap or autoDiscoveryDir; if one model serves all requests, set modelName.",
  },
  TOKENIZER_FILE: {
    exit: 1,
    cause: "The files of a model's tokenizer cannot be used.",
    remedy: "Correct the file that the message names; Sluice tries again after a minute.",
  },
  TOKENIZER_REQUEST: {
    exit: 1,
    cause: "Sluice cannot turn the prompt of the request into tokens, and decided without tokens.",
    remedy:
      "Check whether the model server accepts the request; if so, the message names the feature that Sluice lacks.",
  },
  TOKENIZER_LIMIT: {
    exit: 1,
    cause: "Too many or too long prompts wait for tokenizers, so Sluice decided without tokens.",
    remedy: "Raise workersCount, or add replicas of the picker.",
  },
  TOKENIZER_FAILED: {
    exit: 1,
    cause: "The worker thread of a tokenizer ended or hung, and a new one replaced it.",
    remedy: "Check tokenizer.json and the chat template of the model that the message names.",
  },
  TOO_MANY_SUBSCRIBERS: {
    exit: 1,
    cause: "Too many clients follow the decisions at the same time.",
    remedy: "Close some of these clients.",
  },
} as const satisfies Record<string, ErrorRow>;
