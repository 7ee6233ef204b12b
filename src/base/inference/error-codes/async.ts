import type { ErrorRow } from "./row.ts";

/** Errors of queues, gates and batches. */
export const ASYNC_ERRORS = {
  BROKER_UNAVAILABLE: {
    exit: 1,
    cause: "Redis, Google Pub/Sub or the queue file cannot be used at the moment.",
    remedy: "Check that the broker runs and that its address or path is right, then try again.",
    hint: true,
  },
  REDIS_URL_INVALID: {
    exit: 1,
    cause: "A Redis URL has the wrong form.",
    remedy: "Write redis://host:6379, or rediss://host:6379 for TLS.",
  },
  REDIS_CLUSTER: {
    exit: 1,
    cause: "Redis runs in cluster mode, which the transport redis-sortedset does not support.",
    remedy: "Use a Redis server without cluster mode.",
  },
  REDIS_REFUSED: {
    exit: 1,
    cause: "Redis refuses a command, and a retry does not help.",
    remedy: "Check the version of Redis, and that no other program uses the same keys.",
    hint: true,
  },
  PUBSUB_CLIENT_MISSING: {
    exit: 1,
    cause: "The client package of Google Pub/Sub is not installed.",
    remedy: "Run npm install @google-cloud/pubsub@6.",
  },
  QUEUE_FILE_CORRUPT: {
    exit: 1,
    cause: "The queue file is damaged.",
    remedy: 'Save its content with sqlite3 FILE ".recover", then move the file away.',
  },
  QUEUE_FILE_FOREIGN: {
    exit: 1,
    cause: "The queue file belongs to another program, or is not an SQLite database.",
    remedy: "Name another queue file.",
  },
  QUEUE_FILE_NEWER: {
    exit: 1,
    cause: "A newer version of Sluice has written the queue file.",
    remedy: "Use the newer version of Sluice, or another queue file.",
  },
  QUEUE_FILE_ERROR: {
    exit: 1,
    cause: "SQLite cannot carry out a statement on the queue file.",
    remedy: 'Check the queue file with sqlite3 FILE "PRAGMA integrity_check".',
    hint: true,
  },
  QUEUE_TRANSPORT: {
    exit: 1,
    cause: "The command works only with the transports sqlite and redis-sortedset.",
    remedy: "Configure one of these transports, or use a tool of your transport, such as gcloud pubsub.",
  },
  QUEUE_UNKNOWN: {
    exit: 2,
    cause: "The queue does not exist, or the configuration has several queues and the command names none.",
    remedy: "With --queue, name one of the queues that the message lists.",
  },
  QUEUE_IN_USE: {
    exit: 1,
    cause: "A dispatcher works on the queue, so the command changed nothing.",
    remedy: "Stop the dispatcher and run the command again; if the dispatcher hangs, add --force.",
  },
  ENQUEUE_INPUT: {
    exit: 2,
    cause: "The input of sluice enqueue cannot be read.",
    remedy: "Give a file that exists, - for standard input, or a JSON object.",
  },
  REQUEST_INVALID: {
    exit: 2,
    cause: "A request for the queue is not valid.",
    remedy: "Correct the request at the line or the field that the message names.",
  },
  MESSAGE_UNREADABLE: {
    exit: 1,
    cause: "An entry of a queue is not a request.",
    remedy: "Correct the program that wrote the entry.",
  },
  RESULT_INVALID: {
    exit: 1,
    cause: "An entry of a result queue is not a result.",
    remedy: "Let only the dispatcher write to the result queue.",
  },
  RESULT_MISSING: {
    exit: 1,
    cause: "A request has no result although its deadline has passed.",
    remedy: "Start a dispatcher for the queue, and remove result_queue_name from the queue's configuration.",
  },
  REQUESTER_FULL: {
    exit: 1,
    cause: "Too many requests of the application wait for their results.",
    remedy: "Send the next request after a result has come, or raise maxWaiting.",
  },
  PRODUCER_INVALID: {
    exit: 1,
    cause: "An option of createProducer or createRequester is wrong or missing.",
    remedy: "Correct the option that the message names.",
  },
  PRODUCER_CLOSED: {
    exit: 1,
    cause: "The application closed the producer or the requester before the call ended.",
    remedy: "Close the producer or the requester after its last call has returned.",
  },
  GATE_UNKNOWN: {
    exit: 1,
    cause: "The configuration names a gate type that does not exist.",
    remedy: "Correct gate_type, or load the plugin that defines the gate.",
  },
  GATE_PARAMETERS: {
    exit: 1,
    cause: "A parameter of a gate or of a metric source is wrong.",
    remedy: "Correct the parameter that the message names.",
  },
  GATE_CLOSED: {
    exit: 1,
    cause: "The dispatcher stopped while a message waited at a gate.",
    remedy: "No action is needed: the message goes back to its queue.",
  },
  METRIC_SOURCE_UNKNOWN: {
    exit: 1,
    cause: "The configuration names a metric source type that does not exist.",
    remedy: "Correct the type, or load the plugin that defines the metric source.",
  },
  METRIC_SOURCE: {
    exit: 1,
    cause: "A gate cannot read its metric.",
    remedy: "Check that the server of the metric runs and has recent samples.",
  },
  TRANSFORM: {
    exit: 1,
    cause: "A transform cannot change a message.",
    remedy: "Correct the payload or the metadata of the message, or the transform.",
  },
  BATCH_INPUT: {
    exit: 2,
    cause: "The input of a batch cannot be read, or changed while the batch ran.",
    remedy: "Give a file that exists and that no other program changes.",
    hint: true,
  },
  BATCH_INVALID: {
    exit: 2,
    cause: "Some lines of the batch are not valid requests, so the command submitted nothing.",
    remedy: "Correct the lines that the message lists, or give --skip-invalid.",
  },
  BATCH_TOO_LONG: {
    exit: 1,
    cause: "The batch has more lines than one batch may have.",
    remedy: "Split the batch into several files.",
  },
  BATCH_OUTPUT: {
    exit: 1,
    cause: "The output file of the batch cannot be used.",
    remedy: "Name another output file, or correct the line that the message names.",
  },
  BATCH_CHANGED: {
    exit: 1,
    cause: "The output file belongs to a batch with another input or another queue.",
    remedy: "Give the input and the queue of that batch, or another output file.",
  },
  BATCH_JOURNAL: {
    exit: 1,
    cause: "The journal of the batch cannot be used.",
    remedy: "Make the folder of the output file writable, and check that the disk is not full.",
    hint: true,
  },
  BATCH_RUNNING: {
    exit: 1,
    cause: "Another process works on the same batch.",
    remedy: "Wait until the other process ends, or name another output file.",
    hint: true,
  },
  BATCH_RESULTS: {
    exit: 1,
    cause: "The queue has a fixed result queue, but a batch needs its own.",
    remedy: "Name another queue, or remove result_queue_name from the configuration of the queue.",
  },
  BATCH_STORE: {
    exit: 1,
    cause: "The folder of the Batch API, or a file in it, cannot be used.",
    remedy: "Check the path, the rights and the free space of the folder; only Sluice may write to it.",
    hint: true,
  },
  BATCH_BUCKET: {
    exit: 1,
    cause: "The bucket for the files of batches cannot be used.",
    remedy:
      "Check the name of the bucket, --batch-s3-endpoint, the credentials and their rights (s3:GetObject, PutObject, DeleteObject, ListBucket).",
    hint: true,
  },
  S3_CLIENT_MISSING: {
    exit: 1,
    cause: "The client package of S3 is not installed.",
    remedy: "Run npm install @aws-sdk/client-s3@3.",
  },
  BATCH_API_UNREACHABLE: {
    exit: 1,
    cause: "The server of the Batch API does not answer.",
    remedy: "Check that the server runs, and that the address of --url is right.",
    hint: true,
  },
  BATCH_API_REFUSED: {
    exit: 1,
    cause: "The Batch API refuses the request.",
    remedy: "Check the key, the id of the batch and the address; the message has the reason.",
  },
  BATCH_SERVED: {
    exit: 1,
    cause: "Another process already serves the batches of this folder.",
    remedy: "End the other process, or name another folder.",
  },
} as const satisfies Record<string, ErrorRow>;
