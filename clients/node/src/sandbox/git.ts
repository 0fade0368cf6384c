// gitCheckout: `git clone` in the sandbox.
import { posix } from 'node:path';
import { WORKSPACE } from './box';
import { SandboxError } from './errors';
import { quote } from './session';
import type { ExecOptions, ExecResult, GitCheckoutOptions, GitCheckoutResult } from './types';

const CLONE_MS = 600_000;

/** Maps git's error messages to the SDK's codes; the first match counts. */
const FAILURES: ReadonlyArray<[RegExp, string]> = [
  [/Remote branch .* not found|couldn't find remote ref/i, 'GIT_BRANCH_NOT_FOUND'],
  [/Authentication failed|could not read Username|Permission denied \(publickey/i, 'GIT_AUTH_FAILED'],
  [
    /Could not resolve host|Failed to connect|unable to access|Connection (refused|timed out)|Network is unreachable/i,
    'GIT_NETWORK_ERROR',
  ],
  [/not found|does not exist|does not appear to be a git repository/i, 'GIT_REPOSITORY_NOT_FOUND'],
];

function refused(code: string, message: string, repoUrl: string, httpStatus: number): SandboxError {
  return new SandboxError({ code, message, context: { repoUrl }, httpStatus, operation: 'git.checkout' });
}

/** The last part of a URL without `.git`. */
function repositoryName(url: string): string {
  const name = url.replace(/[/]+$/, '').split(/[/:]/).at(-1) ?? '';
  return name.replace(/\.git$/, '') || 'repository';
}

export async function gitCheckout(
  exec: (command: string, options: ExecOptions) => Promise<ExecResult>,
  repoUrl: string,
  options: GitCheckoutOptions = {},
): Promise<GitCheckoutResult> {
  if (typeof repoUrl !== 'string' || repoUrl === '' || repoUrl.startsWith('-') || /[\0\n]/.test(repoUrl))
    throw refused('INVALID_GIT_URL', `${JSON.stringify(repoUrl)} is no URL of a repository`, String(repoUrl), 400);
  const { branch, depth } = options;
  if (depth !== undefined && (!Number.isInteger(depth) || depth < 1))
    throw refused('VALIDATION_FAILED', `depth: ${depth} is no positive number`, repoUrl, 400);
  const targetDir = options.targetDir ?? posix.join(WORKSPACE, repositoryName(repoUrl));
  const words = [
    'git',
    'clone',
    ...(branch === undefined ? [] : ['--branch', branch]),
    ...(depth === undefined ? [] : ['--depth', String(depth)]),
    '--',
    repoUrl,
    targetDir,
  ];
  const run = (command: string) =>
    exec(command, { env: { GIT_TERMINAL_PROMPT: '0' }, timeout: options.cloneTimeoutMs ?? CLONE_MS });
  const cloned = await run(words.map(quote).join(' '));
  if (!cloned.success) {
    if (cloned.exitCode === 127)
      throw refused(
        'COMMAND_NOT_FOUND',
        'there is no git in the sandbox: use a root file system that has it',
        repoUrl,
        500,
      );
    const code = FAILURES.find(([pattern]) => pattern.test(cloned.stderr))?.[1] ?? 'GIT_CLONE_FAILED';
    throw refused(code, cloned.stderr.trim() || `git clone ended with ${cloned.exitCode}`, repoUrl, 500);
  }
  const head = branch ?? (await run(`git -C ${quote(targetDir)} rev-parse --abbrev-ref HEAD`)).stdout.trim();
  return { success: true, repoUrl, branch: head, targetDir, timestamp: new Date().toISOString() };
}
