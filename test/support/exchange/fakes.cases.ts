import { HeaderList } from "../../../src/base/inference/headers.ts";
import type { Wire } from "../../../src/picker/exchange/wire.ts";

/** A wire that never has to do anything. */
export const NO_WIRE: Wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };

/** The head of a chat request. */
export const HEADERS: HeaderList = HeaderList.of([[":path", "/v1/chat/completions"]]);
