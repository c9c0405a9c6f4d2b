"""Facts of a coding agent's memory, with prompts that some of them answer, and prompts that none answers.

Written by hand for `evals/recall.py`. The facts are those of one fictional team; the prompts are worded as people word
them, rarely in the words of the fact.
"""

from __future__ import annotations

#: name: (kind, text)
FACTS: dict[str, tuple[str, str]] = {
    "deploy-day": ("policy", "We deploy to production on Tuesdays and Thursdays before noon, never on Fridays."),
    "package-manager": ("technology", "The web repository uses pnpm; npm install breaks the lockfile."),
    "orm": ("technology", "The team switched from Prisma to Drizzle in March because of cold starts."),
    "database": ("technology", "Postgres 16 runs on Neon; every pull request gets its own database branch."),
    "migrations": ("policy", "Migrations are written by hand in db/migrations and never generated."),
    "auth": ("technology", "Authentication moved from home-made JWT sessions to Clerk."),
    "auth-bug": ("learning", "The login loop on Safari came from a SameSite=None cookie without Secure."),
    "roles": ("decision", "Permissions are checked in the policy layer, not in route handlers."),
    "tabs": ("preference", "Ada prefers tabs over spaces in Go and two spaces everywhere else."),
    "commits": ("policy", "Commit messages follow Conventional Commits, in the imperative, at most 72 characters."),
    "squash": ("policy", "Pull requests are squashed; the title becomes the commit message."),
    "reviews": ("policy", "Two approvals are needed for anything under packages/billing."),
    "tests-vitest": ("technology", "Unit tests run with vitest; end-to-end tests with Playwright against staging."),
    "flaky": ("learning", "checkout.spec.ts is flaky: the payment iframe loads late; wait for the frame."),
    "coverage": ("decision", "We do not chase coverage; a bug fix needs a test that failed before it."),
    "ci": ("technology", "CI runs on Buildkite with self-hosted arm64 agents."),
    "ci-cache": ("learning", "Clearing the turbo cache with pnpm turbo clean fixes the phantom type errors in CI."),
    "monorepo": ("technology", "The monorepo is managed with Turborepo; shared code lives in packages/core."),
    "api-style": ("decision", "Public endpoints are REST under /v2; GraphQL was rejected in the March review."),
    "pagination": ("decision", "Lists are paginated with opaque cursors, never with page numbers."),
    "errors": ("policy", "Errors are returned as problem+json with a stable code field."),
    "rate-limit": ("threshold", "The public API allows 600 requests a minute per key; exports only 10."),
    "timeouts": ("threshold", "Outgoing HTTP calls time out after 3 seconds and are retried twice with jitter."),
    "logging": ("policy", "Logs are structured JSON through pino; console.log fails the lint."),
    "pii": ("policy", "E-mail addresses and phone numbers must be hashed before they are logged."),
    "tracing": ("technology", "Traces go to Honeycomb by OpenTelemetry; the service name is set in otel.ts."),
    "alerts": ("threshold", "On-call is paged when the p95 of checkout is over 1.2 seconds for ten minutes."),
    "flags": ("technology", "Feature flags live in Unleash; a flag older than 90 days is removed."),
    "dates": ("policy", "Times are stored in UTC and shown in the customer's time zone with date-fns-tz."),
    "money": ("policy", "Amounts are integers in minor units with a currency code, never floats."),
    "currency-bug": ("learning", "Yen orders were a hundred times too high because JPY has no minor unit."),
    "stripe": ("technology", "Payments go through Stripe; webhooks are verified and stored before they are handled."),
    "idempotency": ("decision", "Every write to the billing API carries an Idempotency-Key made from the order id."),
    "queue": ("technology", "Background jobs run on BullMQ with Redis; a job may run twice, so jobs are idempotent."),
    "redis": ("learning", "Redis ran out of memory in June because finished jobs were kept; they are removed now."),
    "emails": ("technology", "Transactional mail is sent with Postmark from the notifications service."),
    "images": ("technology", "Uploads go straight to R2 with a presigned URL; thumbnails are made by a worker."),
    "search-index": ("technology", "Product search uses Typesense; the index is rebuilt at 03:00 UTC."),
    "frontend": ("technology", "The frontend is Next.js with the app router; pages/ is legacy and frozen."),
    "components": ("policy", "UI components come from packages/ui; nobody adds another component library."),
    "styling": ("preference", "Styling is done with Tailwind; CSS modules only in the marketing site."),
    "forms": ("technology", "Forms use react-hook-form with zod schemas shared with the API."),
    "state": ("decision", "Server state lives in TanStack Query; Redux was removed in January."),
    "i18n": ("technology", "Translations are in Lokalise; keys are dotted and English is the fallback."),
    "a11y": ("policy", "Every dialog needs a focus trap and a label; axe runs in CI."),
    "strict": ("policy", "TypeScript is strict; any is not allowed without a comment that says why."),
    "exports": ("preference", "Named exports only; default exports make renames hard to find."),
    "python-services": ("technology", "The pricing service is Python 3.12 with FastAPI, managed by uv."),
    "python-lint": ("policy", "Python is linted with ruff and typed with mypy in strict mode."),
    "pandas": ("decision", "New data code uses polars; pandas stays only in the old reports."),
    "docker": ("technology", "Images are built with a distroless base; the pricing image must stay below 200 MB."),
    "secrets": ("policy", "Secrets come from Doppler; .env files are never committed."),
    "terraform": ("technology", "Infrastructure is Terraform in infra/, applied by CI only."),
    "regions": ("decision", "Everything runs in eu-central-1; customer data must not leave the EU."),
    "backups": ("policy", "Backups are taken every six hours and restored into staging each Monday."),
    "staging": ("other", "Staging is reset every night; do not keep test accounts there."),
    "dev-port": ("other", "The dev server runs on port 4310 because 3000 is taken by the old admin."),
    "admin": ("other", "The old admin is a Rails app nobody may extend; new tools go to apps/backoffice."),
    "support": ("other", "Mireille from support owns the refund rules; ask her before they change."),
    "owner-billing": ("other", "Jonas owns billing, Priya owns search and pricing."),
    "release-notes": ("policy", "Every change that a customer sees needs a line in the release notes."),
    "branches": ("policy", "Branches are named by ticket, such as SHOP-1234-short-words."),
    "mobile": ("technology", "The mobile app is Expo; over-the-air updates only for fixes."),
    "perf-budget": ("threshold", "The landing page may load at most 170 kB of JavaScript."),
    "n-plus-one": ("learning", "The order list was slow because of an N+1 on line items; use the batched loader."),
    "editor": ("preference", "Ada works in Neovim and wants commands, not screenshots."),
    "answers": ("preference", "The user wants short answers with the diff first and the reasons after."),
    "no-mocks": ("preference", "Tests use real Postgres in a container and no mocks of our own modules."),
}  # fmt: skip

#: Prompts, with the facts to inject.
ASKED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("can I ship this today? it's friday", ("deploy-day",)),
    ("when is the next release window", ("deploy-day",)),
    ("install lodash in the web app", ("package-manager",)),
    ("add a new table for gift cards", ("migrations", "orm")),
    ("write the migration that adds a column to orders", ("migrations",)),
    ("fix the auth bug", ("auth-bug", "auth")),
    ("users get logged out again and again on their iphone", ("auth-bug",)),
    ("how do users sign in here?", ("auth",)),
    ("where should I check whether the user is an admin", ("roles",)),
    ("format this go file the way Ada likes it", ("tabs",)),
    ("commit this", ("commits",)),
    ("write a commit message for these changes", ("commits", "squash")),
    ("open a PR for the billing change", ("reviews", "squash", "branches")),
    ("the checkout test fails every third run, please make it stable", ("flaky",)),
    ("add tests for the coupon module", ("tests-vitest", "no-mocks", "coverage")),
    ("CI complains about types that don't exist locally", ("ci-cache",)),
    ("where do I put code that both the api and the web app need", ("monorepo",)),
    ("let's add a graphql endpoint for the catalogue", ("api-style",)),
    ("implement GET /v2/orders with paging", ("pagination", "api-style")),
    ("what should the endpoint return when the coupon has expired", ("errors",)),
    ("a customer gets 429 when he exports his orders", ("rate-limit",)),
    ("the call to the tax provider hangs, add a timeout", ("timeouts",)),
    ("add some logging to the refund flow", ("logging", "pii")),
    ("log the customer's email when the payment fails", ("pii", "logging")),
    ("I can't find the traces of the new worker", ("tracing",)),
    ("why was I paged last night about checkout being slow", ("alerts",)),
    ("put the new cart behind a switch so that we can turn it off", ("flags",)),
    ("show the delivery date in the order mail", ("dates", "emails")),
    ("add a price field to the gift card model", ("money",)),
    ("a japanese customer was charged too much", ("currency-bug", "money")),
    ("handle the charge.refunded webhook", ("stripe",)),
    ("customers are sometimes charged twice for one order", ("idempotency", "queue")),
    ("add a job that sends a reminder after three days", ("queue", "emails")),
    ("redis memory keeps growing", ("redis",)),
    ("let users upload an avatar", ("images",)),
    ("the new product does not show up in search", ("search-index",)),
    ("create a settings page", ("frontend", "components", "forms")),
    ("can we use material ui for the date picker?", ("components",)),
    ("build a form for the shipping address", ("forms",)),
    ("should this go into redux", ("state",)),
    ("add a german translation for the cart", ("i18n",)),
    ("make a modal that confirms the deletion", ("a11y", "components")),
    ("can I just type this as any", ("strict",)),
    ("set up a new python service for tax", ("python-services", "python-lint")),
    ("read the csv with pandas and group by country", ("pandas",)),
    ("the pricing container is too big", ("docker",)),
    ("where do I put the new API key", ("secrets",)),
    ("create an S3 bucket in us-east-1 for the exports", ("regions", "terraform")),
    ("can we restore yesterday's data", ("backups",)),
    ("my test account on staging is gone", ("staging",)),
    ("which port does the dev server use", ("dev-port",)),
    ("add a refund button to the admin", ("admin", "support")),
    ("who can tell me how refunds work", ("support",)),
    ("who should review a change in pricing", ("owner-billing", "reviews")),
    ("the order history page takes five seconds to load", ("n-plus-one",)),
    ("the bundle got too big", ("perf-budget",)),
    ("push a new version of the app to the phones", ("mobile",)),
    ("start a branch for SHOP-881", ("branches",)),
)

#: Prompts that no fact answers: other programming topics, small talk with an agent, general questions.
UNRELATED: tuple[str, ...] = (
    "write a function that reverses a linked list in C",
    "explain how a bloom filter works",
    "what is the difference between a mutex and a semaphore",
    "convert this bash script to powershell",
    "why does my regex not match a newline",
    "how do I exit vim",
    "generate a random maze with depth-first search",
    "what does the yield keyword do",
    "solve the two sum problem in rust",
    "make this sentence sound friendlier",
    "translate the readme into portuguese",
    "draw an ascii diagram of a binary tree",
    "how do I undo my last git rebase",
    "what is the time complexity of heapsort",
    "write a haiku about segmentation faults",
    "explain the borrow checker with an example",
    "how do I profile memory of a c++ program with valgrind",
    "write a makefile for a kernel module",
    "simulate a pendulum with runge-kutta",
    "parse this EDIFACT message",
    "what is a monad, without category theory",
    "implement dijkstra with a fibonacci heap",
    "my raspberry pi does not boot any more",
    "explain this assembly: mov eax, [ebp+8]",
    "calculate the eigenvalues of a 3x3 matrix",
    "write a lexer for a small lisp",
    "how does garbage collection work in the JVM",
    "which font is good for reading code",
    "create a tic-tac-toe game in pygame",
    "explain the CAP theorem",
    "how do I mount an NTFS drive on linux",
    "set up a wireguard tunnel between two laptops",
    "train a small classifier on MNIST",
    "what is the gradient of softmax cross entropy",
    "write a shader that looks like water",
    "port this arduino sketch to the esp32",
    "summarise the last chapter of the dragon book",
    "how do I find a file by its content",
    "explain elliptic curves in simple words",
    "rename all the jpg files by the date they were taken",
    "how many bits does a sha-1 hash have",
    "write a sudoku solver with backtracking",
    "what is undefined behaviour",
    "make a chess engine that plays legal moves",
    "compile ffmpeg with hardware acceleration",
    "explain the difference between TCP and UDP",
    "how do I merge two pdf files on the command line",
    "write an emulator for the chip-8",
    "what is tail call optimisation",
    "suggest a name for my cat",
    "fit a cubic spline through these points",
    "how do I read a core dump with gdb",
    "write a markdown parser in haskell",
    "explain what an inode is",
    "how do I calibrate a 3d printer",
    "turn this recursion into a loop",
    "what are the SOLID principles",
    "write a genetic algorithm for the travelling salesman",
    "how do floating point numbers work",
    "implement a trie with autocompletion in swift",
    "what does segfault at 0x0 mean",
    "write a discord bot that rolls dice",
    "explain quaternions for rotation",
    "how can I speed up this fortran loop",
    "look at this file and tell me what it does",
    "rename this variable to something better",
    "is this code thread safe?",
    "split this function into smaller ones",
    "add a comment above this method",
    "can you explain your last change",
)

#: The same as long prompts, in the style of people who think while they type.
ASKED_AT_LENGTH: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "I've been going through the coupon code and it's a mess. I'd like to split it into a pure part and a part that"
        " talks to the database, and then write tests for both. Start with the pure part and leave the cart alone.",
        ("tests-vitest", "no-mocks"),
    ),
    (
        "A customer from Osaka wrote to support that his card was charged a hundred times what the shop showed him. I"
        " checked the order in the back office and the total looks right there, so it must be on the way to the payment"
        " provider. Can you find out where it goes wrong?",
        ("currency-bug", "money"),
    ),
    (
        "ok so next thing: we want people to be able to upload a picture for their profile. It should be cropped to a"
        " square in the browser, at most 2 MB, and shown in the header. Let me know if you need anything from me.",
        ("images",),
    ),
    (
        "Please look at the nightly run from yesterday. Most of it is green but the checkout one fails now and then,"
        " and when I run it on my own machine it always passes. I'd rather not just add a sleep. What do you suggest?",
        ("flaky",),
    ),
    (
        "Let's build the page where merchants can see all their payouts. It needs a table with a filter by date, and it"
        " must work with thousands of rows, so load it piece by piece. Design is in the ticket.",
        ("pagination", "frontend", "components"),
    ),
    (
        "I think we're done here. Can you clean up the branch, write a good message for what we did, and open the pull"
        " request? I'd also like to know who has to look at it, since it touches how invoices are made.",
        ("commits", "reviews", "squash"),
    ),
    (
        "The page with all orders of a shop got really slow for the big merchants, more than eight seconds for one of"
        " them. I suspect the database but I have not looked into it. Please measure first and then fix the cause.",
        ("n-plus-one",),
    ),
    (
        "We need a small service that works out the tax for an order. It gets the items and the address and gives back"
        " the amounts. Set up the skeleton with one endpoint and a test, in the way we do it for the other one.",
        ("python-services", "python-lint", "money"),
    ),
    (
        "Since this morning some people tell us that they cannot stay signed in, they enter their password, are sent"
        " to the start page, and then back to the form. It happens on Macs mostly. Any idea what that could be?",
        ("auth-bug",),
    ),
    (
        "Could you add a way to switch the new recommendations on for ten per cent of the customers? I don't want to"
        " deploy each time that we change the number, and it should be easy to throw away afterwards.",
        ("flags",),
    ),
    (
        "When an import fails nobody notices. I'd like it to leave something in the logs that tells which customer it"
        " was and what went wrong, in a form that we can search for later. Nothing fancy.",
        ("logging", "pii"),
    ),
    (
        "My colleague says that the type errors in the pipeline are not real, and indeed I don't see them when I build"
        " here. It started after we merged the upgrade. Do you know what we did about it the last time?",
        ("ci-cache",),
    ),
    (
        "Let's move the nightly export into a job of its own. It should run after midnight, write a file per merchant,"
        " and it must be no problem if it is started a second time by mistake.",
        ("queue",),
    ),
    (
        "I'd like to set up the bucket for the invoices now. Versioning on, private, a lifecycle rule that deletes"
        " after ten years. You can choose the name. Which region do the others use?",
        ("terraform", "regions"),
    ),
    (
        "For the returns form we need the reason, the items and the bank account. Check the account number while the"
        " user types, and make sure that the server checks the same things, so that the two never differ.",
        ("forms",),
    ),
)

UNRELATED_AT_LENGTH: tuple[str, ...] = (
    "I'm preparing a talk about sorting for first-year students. Could you make a slide deck outline with three parts,"
    " each with one picture that I can draw on a whiteboard? Keep it light, they have not seen any proofs yet.",
    "My laptop gets very hot when I compile large C++ projects and the fan is loud. I've tried ccache and fewer jobs."
    " Is there something else that I could do, short of buying a new one? It runs Linux.",
    "I want to learn how emulators work, so let's write one for an old handheld, step by step. Start with the CPU and"
    " a few opcodes, and explain each before you write it. I know a little assembly.",
    "Please read this paper abstract and tell me whether the method would work for speech as well. I'm not sure that I"
    " understand the loss function, it looks like a contrastive one but with an extra term.",
    "The robot arm overshoots when it gets close to the target. I tuned the gains by hand and it is better, but still"
    " not good. Can you explain how a PID controller is tuned properly, and what the derivative part does?",
    "I need a regular expression that finds Roman numerals up to 3999 in a text, but not when they are part of a word."
    " Please show a few examples that match and a few that do not, and explain the tricky bits.",
    "Could you help me to plan a trip to the coast with two children? We have four days, no car, and it should not be"
    " too expensive. Trains are fine. We like walking, and one of us does not eat fish.",
    "I'm writing a raytracer in Zig as a hobby. Spheres and planes work, now I'd like to add triangles and a bounding"
    " volume hierarchy. Show me the data structure first, then the traversal, and don't use recursion.",
    "There's a puzzle with twelve coins of which one is lighter or heavier, and a balance that may be used three times."
    " I'd like to see the solution as a decision tree, and the reason why it cannot be done with thirteen.",
    "I inherited a Perl script from 2004 that makes labels for a printer. It still works, but nobody understands it."
    " Can you go through it with me and say in plain words what every part does? We'll rewrite it another day.",
    "Let's make a game in the terminal where a snake eats fruit. Use curses, make the speed grow with the length, and"
    " keep the high score in a file. When it's done I'd like to try it with two players.",
    "I'm reading about type theory and I'm lost at dependent pairs. Could you explain them with an example from"
    " everyday life, and then with one in Agda? I know Haskell quite well.",
    "The telescope's images come as FITS files, and I'd like to stack fifty of them and remove the satellites' tracks."
    " Which algorithm is used for that, and could you sketch it in Julia?",
    "Please compare three ways to store a graph in memory when it has ten million nodes and is mostly read. I care"
    " about cache misses more than about memory, and edges are never removed.",
    "I would like to write my thesis in LaTeX with a bibliography and a glossary. Set up a folder with a main file and"
    " chapters, and make it build on Windows as well. I've never used it before.",
)
