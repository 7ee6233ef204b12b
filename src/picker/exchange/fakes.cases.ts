import { HeaderList } from "../../base/inference/headers.ts";
import type { Wire } from "./wire.ts";

/** A wire that never has to do anything. */
export const NO_WIRE: Wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };

/** The head of a chat request. */
export const HEADERS: HeaderList = HeaderList.of([[":path", "/v1/chat/completions"]]);
