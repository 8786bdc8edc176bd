// What both journeys ask of an answer, whichever generated client it came through.
import assert from "node:assert/strict";

type Answer<T, E> = { data?: T; error?: E; response?: Response | undefined };

function expectStatus(what: string, status: number, { data, error, response }: Answer<unknown, unknown>): void {
  const said = error instanceof Error ? `${error}` : JSON.stringify(error ?? data);
  assert.equal(response?.status, status, `${what}: ${said}`);
}

/** The body of a call that had to be answered so. */
export function answered<T>(what: string, status: number, answer: Answer<T, unknown>): NonNullable<T> {
  expectStatus(what, status, answer);
  assert.ok(answer.data !== undefined && answer.data !== null, `${what}: ${answer.error ?? "no body"}`);
  return answer.data;
}

/** The refusal of a call that had to be refused. */
export function refused<E>(what: string, status: number, answer: Answer<unknown, E>): NonNullable<E> {
  expectStatus(what, status, answer);
  assert.ok(answer.error !== undefined && answer.error !== null, `${what}: no body`);
  return answer.error;
}

/** A field that may be absent and here must not be. */
export function given<T>(what: string, value: T): NonNullable<T> {
  assert.ok(value !== undefined && value !== null, `${what} is absent`);
  return value;
}

export function instant(text: string): Date {
  const at = new Date(text);
  assert.ok(!Number.isNaN(at.getTime()), `${text} is not an instant`);
  return at;
}

export function setting(name: string): string {
  return given(`${name} (run this through tests/interface/run)`, process.env[name]);
}
