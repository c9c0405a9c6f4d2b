"""What is read as a fact, how it is kept, and what never is."""

from __future__ import annotations

import pytest

from cofio import sentences
from cofio.extract import patterns
from cofio.extract.sayings import Row, compiled
from cofio.extract.table import ROWS, WISHES
from cofio.model import CATEGORIES, KINDS, category_of

#: A sentence, the kind of fact, and the texts that are kept of it.
FACTS = [
    # preferences
    ("I prefer dark mode", "preference", ["User prefers dark mode"]),
    ("I prefer dark mode for coding", "preference", ["User prefers dark mode"]),
    ("I prefer VS Code over Vim", "preference", ["User prefers VS Code over Vim"]),
    ("i prefer tabs to spaces", "preference", ["User prefers tabs over spaces"]),
    ("I prefer to use early returns", "preference", ["User prefers to use early returns"]),
    ("I prefer listening to music", "preference", ["User prefers listening to music"]),
    ("I'd prefer pnpm over npm.", "preference", ["User prefers pnpm over npm"]),
    ("I would prefer snake_case instead of camelCase", "preference", ["User prefers snake_case over camelCase"]),
    ("I prefer tabs and I hate spaces.", "preference", ["User prefers tabs", "User dislikes spaces"]),
    ("I prefer viridis but others like the default", "preference", ["User prefers viridis"]),
    ("I really like functional components.", "preference", ["User likes functional components"]),
    ("I like Rust, Go and Zig", "preference", ["User likes Rust, Go and Zig"]),
    ("I like tabs better", "preference", ["User likes tabs"]),
    ("I always use ripgrep for searching", "preference", ["User likes ripgrep"]),
    ("I hate YAML", "preference", ["User dislikes YAML"]),
    ("I don’t like default exports", "preference", ["User dislikes default exports"]),
    ("I avoid ORMs because they hide queries", "preference", ["User dislikes ORMs"]),
    ("I never use Docker for local work", "preference", ["User dislikes Docker for local work"]),
    ("My favourite editor is Helix", "preference", ["User's favourite editor is Helix"]),
    ("I like my tests small", "preference", ["User likes their tests small"]),
    ("we prefer functions over classes", "preference", ["Team prefers functions over classes"]),
    ("we prefer plain SQL in reports", "preference", ["Team prefers plain SQL in reports"]),
    ("I'd rather have explicit types than inference", "preference",
     ["User would rather have explicit types than inference"]),
    ("I like it when you explain tradeoffs first", "preference", ["User likes it when you explain tradeoffs first"]),
    ("I don't like it when you change unrelated files", "preference",
     ["User dislikes it when you change unrelated files"]),
    ("I always work in a worktree", "preference", ["I always work in a worktree"]),
    ("Anna prefers pytest over unittest", "preference", ["Anna prefers pytest over unittest"]),
    # policies
    ("We always add null checks for optional parameters", "policy", ["Team policy: always add null checks"]),
    ("We never use var", "policy", ["Team policy: never use var"]),
    ("We never use mocks for integration tests", "policy", ["Team policy: never use mocks for integration tests"]),
    ("We should always use UTC timestamps.", "policy", ["Team policy: always use UTC timestamps"]),
    ("We never commit directly to main", "policy", ["Team policy: never commit directly to main"]),
    ("We always use pnpm in this repo, never npm.", "policy", ["Team policy: always use pnpm in this repo, not npm"]),
    ("We always use pnpm, and never npm or yarn", "policy", ["Team policy: always use pnpm, not npm or yarn"]),
    ("We should use flags, not branches", "policy", ["Team policy: should use flags, not branches"]),
    ("We always add tests, never mind the coverage", "policy", ["Team policy: always add tests"]),
    ("We use Pulumi for infra, never Terraform.", "technology", ["Team uses Pulumi for infra, not Terraform"]),
    ("We use Pulumi for infra, rather than Terraform", "technology", ["Team uses Pulumi for infra, not Terraform"]),
    ("For tests we use Vitest, not Jest", "technology", ["Team uses Vitest for tests, not Jest"]),
    ("We're using Drizzle for the database, not Prisma, because it is small", "technology",
     ["Team uses Drizzle for the database, not Prisma"]),
    ("I use vim for Go, not VS Code", "technology", ["User uses vim for Go, not VS Code"]),
    ("We use Redis for caching, never lost a key", "technology", ["Team uses Redis for caching"]),
    ("We use Redis for caching, not sure why", "technology", ["Team uses Redis for caching"]),
    ("We use Redis for caching, but not sessions", "technology", ["We use Redis for caching, but not sessions"]),
    ("We only deploy on weekdays", "policy", ["Team policy: only deploy on weekdays"]),
    ("We must not log personal data", "policy", ["Team policy: must not log personal data"]),
    ("We should not store tokens in cookies", "policy", ["Team policy: should not store tokens in cookies"]),
    ("We shouldn't use any in TypeScript.", "policy", ["Team policy: shouldn't use any in TypeScript"]),
    ("We must use TLS 1.3", "policy", ["Team policy: must use TLS 1.3"]),
    ("For tests, we always use factories", "policy", ["For tests, we always use factories"]),
    ("our convention is to name branches after the ticket", "policy", ["Team policy: name branches after the ticket"]),
    ("Our naming convention for tables is singular snake_case", "policy",
     ["Our naming convention for tables is singular snake_case"]),
    ("please always run the tests before committing", "policy", ["Always run the tests before committing"]),
    ("Never push to main without a review", "policy", ["Never push to main without a review"]),
    ("I want you to always explain the plan first", "policy", ["Always explain the plan first"]),
    ("When writing migrations, always make them reversible.", "policy",
     ["When writing migrations, always make them reversible"]),
    ("Don't ever edit generated files", "policy", ["Never edit generated files"]),
    ("From now on, answer in German", "policy", ["Answer in German"]),
    ("ok so going forward use conventional commits", "policy", ["Use conventional commits"]),
    ("All endpoints must return JSON", "policy", ["All endpoints must return JSON"]),
    ("No secrets may be committed", "policy", ["No secrets may be committed"]),
    ("tests must not hit the network", "policy", ["Tests must not hit the network"]),
    ("Our pipeline requires two approvals", "policy", ["Our pipeline requires two approvals"]),
    ("prefer composition over inheritance", "policy", ["Prefer composition over inheritance"]),
    ("use pnpm, not npm", "policy", ["Use pnpm, not npm"]),
    ("avoid default exports", "policy", ["Avoid default exports"]),
    ("we have a hard rule that migrations are never edited", "policy", ["Team policy: migrations are never edited"]),
    ("keep answers short", "policy", ["Keep answers short"]),
    ("don't use emojis in commit messages", "policy", ["Don't use emojis in commit messages"]),
    ("we don't mock the database", "policy", ["We don't mock the database"]),
    ("use uv for everything written in Python", "policy", ["Use uv for everything written in Python"]),
    ("run `make check` before every commit", "policy", ["Run `make check` before every commit"]),
    ("please answer in German", "policy", ["Please answer in German"]),
    ("please ask before installing packages", "policy", ["Please ask before installing packages"]),
    # technology
    ("We switched from JWT to Clerk for auth", "technology", ["Team switched from JWT to Clerk"]),
    ("We've switched from Webpack to Vite.", "technology", ["Team switched from Webpack to Vite"]),
    ("We switched from C# to C++ because of latency", "technology", ["Team switched from C# to C++"]),
    ("We moved from Next.js to SvelteKit last year", "technology", ["Team moved from Next.js to SvelteKit"]),
    ("We upgraded from Python 3.9 to 3.12", "technology", ["Team upgraded from Python 3.9 to 3.12"]),
    ("migrated from CRA to Next.js", "technology", ["Team migrated from CRA to Next.js"]),
    ("Migrated MySQL to Postgres", "technology", ["Team migrated from MySQL to Postgres"]),
    ("We migrated MySQL to Postgres", "technology", ["Team migrated from MySQL to Postgres"]),
    ("We migrated the billing service to Go", "technology", ["Team migrated the billing service to Go"]),
    ("we moved our CI from CircleCI to GitHub Actions", "technology",
     ["Team moved their CI from CircleCI to GitHub Actions"]),
    ("I switched from bash to fish", "technology", ["User switched from bash to fish"]),
    ("Switched from pip to uv", "technology", ["Team switched from pip to uv"]),
    ("We replaced Redux with Zustand", "technology", ["Team replaced Redux with Zustand"]),
    ("we migrated to Kubernetes", "technology", ["Team migrated to Kubernetes"]),
    ("I've switched to pnpm", "technology", ["User switched to pnpm"]),
    ("Using Prisma for database access", "technology", ["Team uses Prisma for database access"]),
    ("we use scikit-learn for ranking", "technology", ["Team uses scikit-learn for ranking"]),
    ("we ended up using S3 for uploads", "technology", ["Team uses S3 for uploads"]),
    ("I use Neovim for writing", "technology", ["User uses Neovim for writing"]),
    ("I use Arch btw", "technology", ["User uses Arch"]),
    ("We use Postgres 16 and Redis.", "technology", ["We use Postgres 16 and Redis"]),
    ("we don't use Docker in development", "technology", ["We don't use Docker in development"]),
    ("We no longer use Jenkins", "technology", ["Team no longer uses Jenkins"]),
    ("Our backend uses FastAPI", "technology", ["Our backend uses FastAPI"]),
    ("We started using Bun", "technology", ["Team started using Bun"]),
    ("we dropped support for Node 16", "technology", ["We dropped support for Node 16"]),
    ("we're on Python 3.11 in production", "technology", ["We're on Python 3.11 in production"]),
    ("This is a NestJS project.", "technology", ["This is a NestJS project"]),
    ("this repo follows conventional commits", "technology", ["This repo follows conventional commits"]),
    ("we keep secrets in Vault", "technology", ["We keep secrets in Vault"]),
    ("The frontend is written in SvelteKit", "technology", ["The frontend is written in SvelteKit"]),
    ("we run Postgres 15 on RDS", "technology", ["We run Postgres 15 on RDS"]),
    ("The gateway listens on port 8443", "technology", ["The gateway listens on port 8443"]),
    ("the redis instance is on port 6380 in dev", "technology", ["The redis instance is on port 6380 in dev"]),
    ("Deploys run on GitHub Actions", "technology", ["Deploys run on GitHub Actions"]),
    ("In our frontend we use React Query for server state", "technology",
     ["In our frontend we use React Query for server state"]),
    # what changed, and what is listed
    ("Test coverage has to stay above 80% or CI fails", "policy", ["The coverage threshold is 80%"]),
    ("Coverage threshold is 85% from now on.", "policy", ["The coverage threshold is 85%"]),
    ("We bumped coverage from 80 to 85 percent", "policy", ["The coverage threshold is 85 percent"]),
    ("The API port changed from 3001 to 4000", "other", ["The API port is 4000"]),
    ("We renamed the default branch to main", "other", ["The default branch is main"]),
    ("my work email changed to ada@example.com", "other", ["User's work email is ada@example.com"]),
    ("the staging port isn't 8080, it's 9090", "other", ["The staging port is 9090"]),
    ("staging is on 9090 now", "other", ["The staging port is 9090"]),
    ("the staging port is 9090 (not 8080)", "other", ["The staging port is 9090"]),
    ("the staging port is 9090, so please fix the config", "other", ["The staging port is 9090"]),
    ("Staging now listens on 9090", "other", ["The Staging port is 9090"]),
    ("The max upload size is 10 MB", "other", ["The max upload size is 10 MB"]),
    ("our gateway listens on 8443", "other", ["The gateway port is 8443"]),
    ("the cluster is on 1.29", "technology", ["The cluster is on 1.29"]),
    ("Node got upgraded, it's on 22", "technology", ["Node is on 22"]),
    ("Jonas took over payments from Marta", "other", ["Jonas owns payments"]),
    ("Postgres is at version 16 now by the way", "technology", ["Postgres is at version 16"]),
    ("We upgraded Node to 22", "technology", ["Team upgraded Node to 22"]),
    ("we bumped staging to 1.29 yesterday", "technology", ["Staging is on 1.29"]),
    ("prod got upgraded too, it's on 1.29 as well now.", "technology", ["Prod is on 1.29"]),
    ("We renamed the payments service to billing", "technology", ["Team renamed the payments service to billing"]),
    ("Our backend moved from Go to Rust", "technology", ["Our backend moved from Go to Rust"]),
    ("I moved to Prague", "other", ["User moved to Prague"]),
    ("I've moved to pnpm", "technology", ["User switched to pnpm"]),
    ("We can deploy on Fridays now", "policy", ["We can deploy on Fridays"]),
    ("We ended up not using Redis.", "technology", ["Team does not use Redis"]),
    ("Marta left the company, Jonas took over payments", "other", ["Marta left the company", "Jonas owns payments"]),
    ("Marta owns the payments module", "other", ["Marta owns payments"]),
    ("The staging cluster runs Kubernetes 1.27, prod is on 1.26.", "technology",
     ["The staging cluster runs Kubernetes 1.27", "Prod is on 1.26"]),
    ("The API listens on port 3001 and the admin panel on port 3002.", "technology",
     ["The API listens on port 3001", "The admin panel listens on port 3002"]),
    ("It's a Next.js 14 app with a Postgres 15 database, hosted on Vercel.", "technology",
     ["Team uses Next.js 14", "Team uses Postgres 15", "The project is hosted on Vercel"]),
    ("This one's Terraform 1.5 on AWS, region eu-central-1.", "technology",
     ["Team uses Terraform 1.5", "The project runs on AWS", "The region is eu-central-1"]),
    ("for auth we went with Clerk", "technology", ["Team uses Clerk for auth"]),
    ("Stripe handles payments", "technology", ["Stripe handles payments"]),
    ("We never use any.", "policy", ["Team policy: never use any"]),
    ("ask Marta before touching src/billing", "policy", ["Ask Marta before touching src/billing"]),
    ("My manager says we must ship by March 3rd.", "policy", ["Deadline: must ship by March 3rd"]),
    ("I said small commits, but for refactorings I'd rather have one big commit.", "preference",
     ["User prefers one big commit for refactorings"]),
    ("I'm based in Brno", "other", ["User is based in Brno"]),
    ("State is in an S3 bucket called acme-tfstate with DynamoDB locking.", "other",
     ["State is in an S3 bucket called acme-tfstate with DynamoDB locking"]),
    ("Our on-call rotation changes on Mondays at 9:00 CET", "other",
     ["Our on-call rotation changes on Mondays at 9:00 CET"]),
    ("We also use PayPal for payments", "technology", ["Team uses PayPal for payments"]),
    ("We use Stripe for payments and we also use PayPal for payouts", "technology",
     ["Team uses Stripe for payments", "Team uses PayPal for payouts"]),
    # decisions
    ("We decided to drop IE11 support", "decision", ["Team decided to drop IE11 support"]),
    ("We decided to use Postgres because it supports JSONB", "decision",
     ["Team decided to use Postgres because it supports JSONB"]),
    ("We chose to keep the monolith since the team is small", "decision",
     ["Team decided to keep the monolith because the team is small"]),
    ("We agreed to ship on Fridays", "decision", ["Team agreed to ship on Fridays"]),
    ("I've decided to use Tauri instead of Electron", "decision", ["User decided to use Tauri instead of Electron"]),
    ("We decided that all ids are ULIDs", "decision", ["Team decided that all ids are ULIDs"]),
    ("we decided against GraphQL", "decision", ["Team decided against GraphQL"]),
    ("we've standardised on ruff for linting", "decision", ["Team standardised on ruff for linting"]),
    ("We chose Stripe over Paddle for payments", "decision", ["We chose Stripe over Paddle for payments"]),
    ("We went with Hetzner because it is cheap", "decision", ["We went with Hetzner because it is cheap"]),
    ("Let's use httpx instead of requests", "decision", ["Decided to use httpx instead of requests"]),
    ("let's use Redis for sessions", "decision", ["Decided to use Redis for sessions"]),
    ("let's go with Postgres for the job queue", "decision", ["Decided to go with Postgres for the job queue"]),
    ("Let's stick with REST", "decision", ["Decided to stick with REST"]),
    ("ok let's go with Redis then", "decision", ["Decided to go with Redis"]),
    ("let's not use GraphQL", "decision", ["Decided not to use GraphQL"]),
    ("Found a workaround for NativeWind v4 by using className prop", "decision",
     ["Found workaround for NativeWind v4 by using className prop"]),
    # learnings
    ("The root cause was a missing index on orders.user_id", "learning",
     ["The root cause was a missing index on orders.user_id"]),
    ("Root cause: the pool was exhausted", "learning", ["Root cause: the pool was exhausted"]),
    ("The issue was caused by a missing await", "learning", ["The issue was caused by a missing await"]),
    ("The flaky test was caused by a shared folder", "learning", ["The flaky test was caused by a shared folder"]),
    ("it was the buffer size that caused the 502s", "learning", ["It was the buffer size that caused the 502s"]),
    ("I fixed the memory leak by closing the cursor", "learning", ["Fixed the memory leak by closing the cursor"]),
    ("The workaround is to pin protobuf to 3.20", "learning", ["The workaround is to pin protobuf to 3.20"]),
    ("Turns out the staging database is shared with QA", "learning", ["The staging database is shared with QA"]),
    ("Gotcha for next time: the proxy strips the trailing slash", "learning", ["The proxy strips the trailing slash"]),
    ("Worth knowing: vacuum blocks the replica for an hour", "learning", ["Vacuum blocks the replica for an hour"]),
    ("The mismatch came from two time zones in one column", "learning",
     ["The mismatch came from two time zones in one column"]),
    ("The gaps appear because the sampler skips empty buckets", "learning",
     ["The gaps appear because the sampler skips empty buckets"]),
    ("The linter ignores generated files, which is why nobody saw the import", "learning",
     ["The linter ignores generated files, which is why nobody saw the import"]),
    ("The upload limit goes from 10 MB to 25 MB", "other", ["The upload limit is 25 MB"]),
    ("minSdk goes up to 30 with the next release", "other", ["The minSdk is 30 with the next release"]),
    ("The launch is postponed to Q3", "other", ["The launch was moved to Q3"]),
    ("the camera-ready deadline was extended to January 20", "other",
     ["The camera-ready deadline was moved to January 20"]),
    ("We learned that Safari caches redirects", "learning", ["We learned that Safari caches redirects"]),
    # temporal
    ("Started using React last month", "temporal", ["Started using React last month"]),
    ("We started using Terraform 3 months ago", "temporal", ["Started using Terraform 3 months ago"]),
    ("I've been using Vim for about 10 years", "temporal", ["Been using Vim for 10 years"]),
    ("Been using Linear since 2022", "temporal", ["Been using Linear since 2022"]),
    # the rest
    ("My name is Ada", "other", ["User's name is Ada"]),
    ("my pronouns are they/them", "other", ["User's pronouns are they/them"]),
    ("my timezone is Europe/Berlin", "other", ["User's timezone is Europe/Berlin"]),
    ("Call me Ann", "other", ["User is called Ann"]),
    ("I work at Acme", "other", ["User works at Acme"]),
    ("I live in Leeds and love trains", "other", ["User lives in Leeds"]),
    ("I'm a backend engineer at Siemens", "other", ["User is a backend engineer at Siemens"]),
    ("Ann owns billing", "other", ["Ann owns billing"]),
    ("Sarah is the product owner", "other", ["Sarah is the product owner"]),
    ("Python 3.12 is our minimum", "other", ["Python 3.12 is our minimum"]),
    ("Our SLA is 99.9%", "other", ["Our SLA is 99.9%"]),
    ("the feature flag service is called togglr", "other", ["The feature flag service is called togglr"]),
    ("the staging port is 5433", "other", ["The staging port is 5433"]),
    ("our staging url is staging.example.com", "other", ["Our staging url is staging.example.com"]),
    ("our default branch is develop", "other", ["Our default branch is develop"]),
    ("API docs are in docs/api.md", "other", ["API docs are in docs/api.md"]),
    ("The config lives in config/settings.toml", "other", ["The config lives in config/settings.toml"]),
]  # fmt: skip

#: What is asked to be kept, how sure that is, the kind, and the text.
WISHED = [
    ("Remember that the demo is every Friday", 0.95, "other", "The demo is every Friday"),
    ("remember: I prefer tabs over spaces", 0.95, "preference", "User prefers tabs over spaces"),
    ("Please remember to run make lint before pushing", 0.95, "policy", "Run make lint before pushing"),
    ("Remember: never restart the queue on weekdays", 0.95, "policy", "Never restart the queue on weekdays"),
    ("Remember that the demo is on Friday and I prefer tabs", 0.95, "preference",
     "The demo is on Friday and I prefer tabs"),
    ("don't forget that the API is versioned by date", 0.95, "other", "The API is versioned by date"),
    ("Save this: my backup email is ada@example.com", 0.95, "other", "User's backup email is ada@example.com"),
    ("Note that the invoices table is partitioned by month", 0.85, "other",
     "The invoices table is partitioned by month"),
    ("Keep in mind that legacy clients send XML", 0.85, "other", "Legacy clients send XML"),
    ("Important: never run the seed script in production", 0.85, "policy", "Never run the seed script in production"),
    ("heads up, the staging certs expire in June", 0.8, "other", "The staging certs expire in June"),
]  # fmt: skip

#: Worded like facts, and none: nothing is read, whoever says it.
NEVER = {
    "questions": [
        "Hello, how are you?",
        "Should we always use tabs?",
        "do we always use UTC",
        "What if we switched from Jest to Vitest?",
        "I prefer tabs, right?",
        "why do we never use mocks",
        "Do you remember that the demo is on Friday",
    ],
    "what is supposed, hoped, denied or said by others": [
        "If we switched from Jest to Vitest, builds would be faster",
        "Maybe we should use Postgres",
        "I wonder whether we always use UTC",
        "we could switch from npm to pnpm",
        "Imagine we migrated from MySQL to Postgres",
        "I would prefer if you kept it short",
        "It's not true that we always use mocks",
        "I don't think we should use Redux",
        "The docs say we should always use strict mode",
        'He said "I prefer dark mode"',
        "Bob said we switched from Jest to Vitest",
        "My colleague thinks we use Redux for state.",
        "Write a commit message like 'We switched from Jest to Vitest'.",
        "Before we switched from Go to Rust, things were slow.",
        "For example, we always use tabs",
        "> I prefer dark mode",
        "The customer switched from Stripe to Adyen",
    ],
    "code, markup, JSON, traces and logs": [
        "const always = useMemo(() => we.use(x))",
        "<ide_opened_file>We always use tabs</ide_opened_file>",
        "TypeError: we should never use this",
        '"policy": "We always use tabs",',
        '{"text": "I prefer dark mode"}',
        "2026-01-01 12:00:00 INFO we always use the cache",
        "if (we) { I prefer tabs }",
        "at Object.use (/app/node_modules/we/always.js:10:5)",
    ],
    "what points instead of naming": [
        "let's go with A",
        "let's go with option B",
        "I prefer that one",
        "I prefer the second option",
        "I'd prefer you do it later",
        "we always do this",
        "we never do that",
        "I like it",
        "I like this approach",
        "I like the new layout",
        "I love how clean this is",
        "use it",
        "We decided to do it later",
        "here we decided to return early",
        "So we use a reducer for the state in this component",
        "don't add new dependencies for this",
        "I found that file",
        "we're using the wrong endpoint",
        "I fixed it by hand",
        "It owns the lock",
        "Remember this",
        "Always ask me first",
        "Note that this is a draft",
        "turns out it was cached",
    ],
    "the task at hand": [
        "we should fix the failing test",
        "We must finish this today",
        "we should not merge this yet",
        "we need to use a different approach here",
        "we should use a transaction here",
        "I'd like to add a button",
        "I'm using a for loop",
        "let's use a dict for the lookup",
        "We agreed to meet at 3pm",
        "We decided to go to lunch",
        "We're on line 42",
        "the cursor is on 42",
        "We updated the test to 5 cases",
        "It's a TypeError with Node 22",
        "I moved to Chapter 3",
        "The meeting starts at 3pm",
        "Don't forget the semicolon on line 5.",
        "Answer in English please, just this once",
        "don't forget to push",
        "remember to close the file handle in parse()",
        "let's use tabs for the settings page",
        "our goal is to finish by Friday",
        "Please use a dict here",
    ],
    "what goes or is moved somewhere, not to another value": [
        "The traffic goes to web-1",
        "The image was pushed to Docker Hub",
        "The rollout was extended to 50 regions",
    ],
    "irony": [
        "yeah because we always have time for a full rewrite",
        "oh great, we use three date libraries now",
    ],
    "trouble and the past": [
        "I always get this error",
        "We always get the same warning",
        "We never finished the migration",
        "We never had this problem with webpack",
        "you never run the tests",
        "never mind, I found it",
        "I have never seen this before",
        "never returns",
        "I fixed the typo by hand",
        "Turns out I had a typo",
        "The root cause is unclear",
        "The fix is in the next commit",
        "Fixed the bug by adding a null check",
    ],
    "where the work stands": [
        "all tests pass",
        "Our default branch is failing",
        "the port is already in use",
        "The database is down",
        "The version is outdated",
        "the team is happy",
        "the new version is out",
        "the branch is called fix/login",
        "Note that I have not run it yet",
        "We switched from 12 tests to 44 tests",
        "Merged PR #123, we always use squash",
        "We decided to revert a1b2c3d4",
        "I'm currently working on the login page",
        "The next step is to use the new API",
        "now let's use Redis for caching",
        "I'm going to use Redis for caching",
        "I'll use a regex",
        "I'm on branch feature/login",
    ],
    "participles and near misses": [
        "Using a map for lookups is faster",
        "try using Redis for caching",
        "I'm a bit confused",
        "I'm a fan of Rust",
        "I live in fear of this migration",
        "Call me when you are done",
        "Our team decided to use a microservices architecture for scalability",
        "I like to think so",
        "We decided to wait",
    ],
}

#: What an assistant may tell, and what only a user's word counts for.
TOLD_BY_ANYONE = [
    "The root cause was a stale connection in the pool.",
    "The root cause is that `useEffect` runs twice in strict mode.",
    "I found a workaround for the Safari bug by using a polyfill.",
    "Fixed the flaky login test by awaiting the flush.",
    "The fix was to pin protobuf to 3.20.",
    "It turned out that the index was missing on orders.",
    "The mismatch came from two time zones in one column.",
    "Worth remembering: the emulator reads JAVA_HOME from the IDE.",
]
TOLD_BY_USERS = [
    "I prefer using async/await.",
    "We always use React Query for data fetching.",
    "Always use parameterised queries.",
    "We use Postgres for storage.",
    "Using Redis for caching",
    "Switched from useState to useReducer.",
    "My name is Claude",
    "The staging port is 5433.",
    "Remember that hooks are called at the top level.",
    "Our standard is to write tests first",
    "We switched from Jest to Vitest.",
    "We switched from a for loop to map",
    "We migrated from Express to Fastify.",
    "We decided to keep the old endpoint because clients depend on it.",
    "We chose to split the function in two",
    "We decided to keep the staging port at 8080",
    "We changed the staging port to 9090",
    "It's a Next.js 14 app with Postgres 15",
]

OPENERS = [
    "Correction:", "No wait,", "Wait,", "Actually,", "Actually no,", "I meant", "Oops,", "To be clear,", "Currently",
    "As of today", "In this repo", "Update:", "You forgot that", "Just so you know", "Turns out", "Heads up:",
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "kind", "texts"), FACTS)
def test_what_is_worded_like_a_fact_is_kept(sentence: str, kind: str, texts: list[str]) -> None:
    found = patterns.find(sentence)
    assert [each.text for each in found] == texts
    assert {each.kind for each in found} == {kind}
    assert {(each.method, each.said, each.role) for each in found} == {("pattern", sentence, "user")}
    assert all(0.8 <= each.confidence <= 0.95 for each in found)


@pytest.mark.parametrize(("sentence", "confidence", "kind", "text"), WISHED)
def test_what_somebody_asks_to_remember_is_kept_with_more_confidence(
    sentence: str, confidence: float, kind: str, text: str
) -> None:
    (found,) = patterns.find(sentence)
    assert (found.text, found.kind, found.confidence) == (text, kind, confidence)


@pytest.mark.parametrize(("why", "sentence"), [(why, each) for why, sentences_ in NEVER.items() for each in sentences_])
def test_nothing_is_read_in(why: str, sentence: str) -> None:
    assert patterns.find(sentence) == [], why
    assert patterns.find(sentence, role="assistant") == [], why


@pytest.mark.parametrize("adding", ["We also use PayPal for payments", "We use PayPal for payments too.",
                                    "We use Stripe for payments, and we use PayPal for payouts as well"])  # fmt: skip
def test_that_something_was_said_beside_what_is_known_is_kept_with_the_fact(adding: str) -> None:
    assert {each.said for each in patterns.find(adding)} == {adding}


def test_a_rule_and_its_exception_said_in_one_breath_are_two_facts() -> None:
    found = patterns.find("We deploy from main only, and never on Fridays.")
    assert [each.text for each in found] == ["We deploy from main only", "Team policy: never deploy on Fridays"]
    found = patterns.find("Marta owns payments, ask her before touching src/billing")
    assert [each.text for each in found] == ["Marta owns payments", "Ask Marta before touching src/billing"]


@pytest.mark.parametrize("sentence", TOLD_BY_ANYONE)
def test_what_was_learned_may_be_told_by_the_assistant(sentence: str) -> None:
    assert [each.role for each in patterns.find(sentence, role="assistant")] == ["assistant"]
    assert [each.role for each in patterns.find(sentence)] == ["user"]


@pytest.mark.parametrize("sentence", TOLD_BY_USERS)
def test_all_else_is_the_users_to_tell(sentence: str) -> None:
    assert patterns.find(sentence, role="assistant") == []
    assert patterns.find(sentence) != []


@pytest.mark.parametrize(
    ("sentence", "confidence", "entities"),
    [
        ("I prefer React over Vue", 0.9, ("React", "Vue")),
        ("I love Rust", 0.85, ("Rust",)),
        ("I never use semicolons", 0.85, ("semicolons",)),
        ("We always add null checks for optional parameters", 0.85, ("null checks",)),
        ("Our standard is to write tests first", 0.9, ("write tests first",)),
        ("We switched from JWT to Clerk for authentication", 0.9, ("JWT", "Clerk")),
        ("Using Prisma for database access", 0.85, ("Prisma", "database access")),
        ("We migrated from MySQL to PostgreSQL", 0.9, ("MySQL", "PostgreSQL")),
        ("We decided to drop IE11 support", 0.85, ("drop IE11 support",)),
        ("Found a fix for NativeWind v4 by using className", 0.85, ("NativeWind v4", "using className")),
        ("Started using React last month", 0.8, ("React",)),
        ("I've been using Vim for 10 years", 0.8, ("Vim",)),
        ("We use CI/CD from GitLab and C#", 0.85, ("CI/CD", "GitLab", "C#")),
        ("the base url is https://api.example.com/v2", 0.85, ("https://api.example.com/v2",)),
        ("we use `uv` for tooling", 0.85, ("uv", "tooling")),
    ],
)
def test_a_fact_has_its_entities_and_its_confidence(
    sentence: str, confidence: float, entities: tuple[str, ...]
) -> None:
    (found,) = patterns.find(sentence)
    assert (found.confidence, found.entities) == (confidence, entities)


def test_only_facts_of_the_kind_that_is_asked_for_come_back() -> None:
    sentence = "I prefer tabs and we switched from npm to pnpm"
    assert [each.kind for each in patterns.find(sentence)] == ["preference", "technology"]
    assert [each.text for each in patterns.find(sentence, "technology")] == ["Team switched from npm to pnpm"]
    assert patterns.find("I prefer React", "preference") != []
    assert patterns.find("I prefer React", "temporal") == []
    assert patterns.find("Remember that the demo is on Friday", "policy") == []


def test_every_sentence_of_a_text_is_read() -> None:
    text = (
        "Hi! I prefer tabs. We use uv for tooling, can you fix the build?\n- never push to main\n> we always use npm\n"
    )
    assert [each.text for each in patterns.facts(text)] == [
        "User prefers tabs",
        "Team uses uv for tooling",
        "Never push to main",
    ]


def test_the_words_of_one_fact_are_not_read_twice() -> None:
    found = patterns.find("We decided to stop using Jest because we always use Vitest for new tests")
    assert [each.kind for each in found] == ["decision"]


def test_what_is_too_long_to_be_a_sentence_is_not_read() -> None:
    assert patterns.find("I prefer tabs " + "x" * sentences.LONGEST) == []


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.reads[:60])
def test_every_row_is_led_to_by_its_words_and_reads_a_sentence(row: Row) -> None:
    reading = compiled(row)
    asked = [set(words.split("+")) for words in row.words.split()]
    read = [
        sentence
        for sentence, kind, _ in FACTS
        if kind == row.kind
        and any(words <= held(sentence) | {"#"} for words in asked)
        and reading.pattern.search(sentences.bare(sentence))
    ]
    assert read
    assert row.kind in KINDS
    assert category_of(row.kind) in CATEGORIES
    assert set(row.entities.split()) <= set(reading.pattern.groupindex)


def test_every_wish_has_been_asked_for() -> None:
    assert len(WISHES) == len({wish for wish in WISHES for each in WISHED if set(wish.words.split()) & held(each[0])})


def held(sentence: str) -> set[str]:
    return set(sentences.tokens(sentence))
