/**
 * For `node --import`: modules of users find `sluice/plugin` without having the package installed, in their own tests for
 * example.
 */
import { resolveOurs } from "./plugin-import.ts";

resolveOurs();
