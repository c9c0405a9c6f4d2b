"""What a fact sounds like: one row a wording, the most telling first.

A row says which kind of fact it is, how sure, which words must be there for it to be worth a look, how the sentence
reads, what is kept of it, which parts are entities, and whose word counts; `sayings` explains the marks. Where two rows
read the same words, the one that begins further left has them, and of two that begin together the one that stands
first.
"""

from __future__ import annotations

from cofio.extract.changes import CHANGES
from cofio.extract.sayings import Row, Wish, both

PREFERENCES = (
    Row("preference", .9, "prefer",
        r"\bI('d| would)? <adv>prefer <what> (over|instead of|rather than) <than><end>",
        "User prefers {what} over {than}", "what than"),
    Row("preference", .9, "prefer",
        r"\bI('d| would)? <adv>prefer (?!to |\w+ing )<what> to <than><end>",
        "User prefers {what} over {than}", "what than"),
    Row("preference", .9, "prefer",
        r"\bI(('d| would) <adv>prefer (?!to )| <adv>prefer )<what><end>",
        "User prefers {what}", "what"),
    Row("preference", .9, both("favorite favourite preferred go-to default usual", "my"),
        r"\bmy <how=favou?rite|preferred|go-to|default|usual> <thing> is <what><stop>",
        "User's {how} {thing} is {what}", "what"),
    Row("preference", .85, "like+i love+i always+i",
        r"\bI <adv>(like|love|always use) (?!the |to (think|see|know|say|add|have|get|hear)\b)<what><end>",
        "User likes {what}", "what"),
    Row("preference", .85, "hate dislike never+i avoid+i don't+like not+like can't+stand",
        r"\bI <adv>(hate|dislike|never use|avoid|don't (really )?like|do not like|can't stand) (?!the )<what><stop>",
        "User dislikes {what}", "what"),
    Row("preference", .85, "prefer+we",
        r"\bwe <adv>prefer <what> (over|instead of|rather than) <than><end>",
        "Team prefers {what} over {than}", "what than"),
    Row("preference", .85, "prefer+we",
        r"\bwe <adv>prefer <what><stop>",
        "Team prefers {what}", "what"),
    Row("preference", .85, "rather+than",
        r"\bI('d| would) (much )?rather (?!not )<rule...>",
        "User would rather {rule}"),
    Row("preference", .85, both("rather prefer", "for"),
        r"^(I said [^,;]{2,60}, but )?for <aim>,? I('d| would)? (rather (have|use|see)|prefer) "
        r"(?!it\b|this\b|that\b|the |you )<what=[\w-]+( [\w-]+){0,5}?><stop>",
        "User prefers {what} for {aim}", "what aim"),
    Row("preference", .85, "like+when love+when",
        r"\bI <adv>(like|love) it when you <rule...>",
        "User likes it when you {rule}"),
    Row("preference", .85, "like+when hate+when",
        r"\bI <adv>(hate|don't like|do not like) it when you <rule...>",
        "User dislikes it when you {rule}"),
    Row("preference", .8, "always+i never+i usually+i",
        r"^I (always|never|usually) <rule...>"),
    Row("preference", .85, "prefers",
        r"^<person> prefers <what><stop>", "", "name what"),
)  # fmt: skip

TEMPORAL = (
    Row("temporal", .8, "started+using",
        r"\b((we|I)('ve| have)? <adv>)?started using <what>( for <aim>)? <when=(last|this) \w+|\d+ \w+ ago"
        r"|(a|two|three|a few|a couple of) \w+ ago|yesterday|in (\d{4}|[A-Z]\w+( \d{4})?)>",
        "Started using {what}[ for {aim}] {when}", "what"),
    Row("temporal", .8, both("been", "using writing running"),
        r"\bbeen <verb=using|writing|running> <what> for (about |around |over |almost |~)?"
        r"<span=(\d+|an?|one|two|three|four|five|six|ten|several|many|a few) \w+>",
        "Been {verb} {what} for {span}", "what"),
    Row("temporal", .8, "been+using",
        r"\bbeen using <what> since <when=\w+( \d{4})?><stop>",
        "Been using {what} since {when}", "what"),
)  # fmt: skip

TECHNOLOGY = (
    Row("technology", .9, both("switched moved changed upgraded transitioned", "from"),
        r"<we><verb=switched|moved|changed|upgraded|transitioned> from <old> to <new><end>",
        "Team {verb} from {old} to {new}", "old new"),
    Row("technology", .9, both("migrated moved switched", "from"),
        r"<we><verb=migrated|moved|switched> (?=(all )?our )<what> from <old> to <new><end>",
        "Team {verb} {what} from {old} to {new}", "old new"),
    Row("technology", .9, "migrated",
        r"<we>migrated (?=the |our |all )<old> to <new><end>",
        "Team migrated {old} to {new}", "old new"),
    Row("technology", .9, "migrated",
        r"<we>migrated (from )?<old> to <new><end>",
        "Team migrated from {old} to {new}", "old new"),
    Row("technology", .9, both("switched moved changed upgraded migrated", "from"),
        r"^<verb=switched|moved|changed|upgraded|migrated> from <old> to <new><end>",
        "Team {verb} from {old} to {new}", "old new"),
    Row("technology", .9, "migrated",
        r"^migrated (?!the |our |all )<old> to <new><end>",
        "Team migrated from {old} to {new}", "old new"),
    Row("technology", .9, both("switched moved changed upgraded migrated", "from"),
        r"\bI('ve| have)? <adv><verb=switched|moved|changed|upgraded|migrated> from <old> to <new><end>",
        "User {verb} from {old} to {new}", "old new"),
    Row("technology", .9, "replaced",
        r"<we>replaced (?!the |a )<old> (with|by) <new><end>",
        "Team replaced {old} with {new}", "old new"),
    Row("technology", .85, both("switched moved upgraded migrated", "to"),
        r"<we><verb=switched|moved|upgraded|migrated> to (?!the |a )<new><stop>",
        "Team {verb} to {new}", "new"),
    Row("technology", .85, both("switched moved upgraded migrated", "to"),
        r"\bI('ve| have) <adv>(?!moved to (?-i:[A-Z]))(switched|moved|upgraded|migrated) to (?!the |a )<new><stop>",
        "User switched to {new}", "new"),
    Row("technology", .85, "using",
        r"(^|\bwe('re| are) <adv>|\bwe've been |\bwe ended up )using (?!a |an )<what> (for|to handle|to manage) "
        r"<aim>( now| currently)?<end><contrast>",
        "Team uses {what} for {aim}[, not {but}]", "what aim"),
    Row("technology", .85, "use+we",
        r"\bwe <adv>use <what> (for|to handle|to manage) <aim>( now| currently)?<stop><contrast>",
        "Team uses {what} for {aim}[, not {but}]", "what aim"),
    Row("technology", .85, "using+i'm using+i use+i",
        r"\bI('m| am)? <adv>(using|use) (?!a |an |the )<what> (for|as) <aim>( now| currently)?<stop><contrast>",
        "User uses {what} for {aim}[, not {but}]", "what aim"),
    Row("technology", .85, both("for", "we we're"),
        r"^for <aim>,? we('re| are|'ve| have)? <adv>(use|using|went with|go with|chose|picked) "
        r"(?!the |an? )<what><stop><contrast>",
        "Team uses {what} for {aim}[, not {but}]", "what aim"),
    Row("technology", .8, "handles powers",
        r"^<person> (handles|powers) (?!the |this |that |it\b|all )<what><stop>", "", "name what"),
    Row("technology", .85, "longer",
        r"\bwe no longer use <what><stop>",
        "Team no longer uses {what}", "what"),
    Row("technology", .85, "use+we",
        r"\bwe (don't|do not|can't|cannot) use <rest...>"),
    Row("technology", .85, "use uses using",
        r"^(we <adv>use|we('re| are) <adv>using|<project> uses) <rest...>"),
    Row("technology", .8, "using+i'm using+i use+i",
        r"^I('m| am)? <adv>(using|use) (?!a |an |the |my )<what><end>",
        "User uses {what}", "what"),
    Row("technology", .85, "started+using stopped+using quit+using",
        r"\bwe('ve| have)? <adv><verb=started|stopped|quit> using (?!the |a )<what><stop>",
        "Team {verb} using {what}", "what"),
    Row("technology", .85, "dropped deprecated retired off+moved away+moved",
        r"^we('ve| have)? <adv>(dropped|deprecated|retired|moved (off|away from)( of)?) <what><stop>", "", "what"),
    Row("technology", .85, "we're+on we+on",
        r"^we('re| are) <adv>on (?!line |page |step |call\b|track\b|it\b)"
        r"(?=(?-i:[^,;]{0,40}[A-Z0-9]))<what><stop>", "", "what"),
    Row("technology", .85, both("project app application repo repository monorepo codebase service library", "this"),
        r"^this (is|project is|repo is) an? (?=(?-i:[^,;]{0,40}[A-Z0-9]))<what> "
        r"(project|app|application|repo|repository|monorepo|codebase|service|library)<end>", "", "what"),
    Row("technology", .85, "deploy deploys release releases ship ships publish support supports target targets follow "
        "follows",
        r"^(we|<project>) <adv>(deploy|release|ship|publish|support|target|follow)s? <rest...>"),
    Row("technology", .8, both("store keep save cache log track host write name pin run build lint format monitor",
                                "we"),
        r"^we <adv>(store|keep|save|cache|log|track|host|write|name|pin|run|build|lint|format|monitor) "
        r"(?!into |\w+ing )<what> (in|as|on|at|with|under|by|using|via|to) <where><stop>", "", "where"),
    Row("technology", .85, both("hosted deployed stored written built defined kept configured documented managed",
                                 "is are"),
        r"^(the |our |all )?<thing> (is|are) (hosted|deployed|stored|written|built|defined|kept|configured|documented"
        r"|managed) (on|in|at|as|to|with|by|via|under|from|through) <where><stop>", "", "where"),
    Row("technology", .85, "listens exposed served reachable",
        r"^(the |our )?<thing> (listens|is exposed|is served|is reachable) (on|at|under|from) <where><stop>",
        "", "where"),
    Row("technology", .85, "port+on",
        r"^(the |our )?<thing> (is|are|runs?) on port <where><stop>", "", "where"),
    Row("technology", .85, "run runs",
        r"^(production|staging|prod|(the|our) ([\w-]+ ){0,2}?(cluster|server|servers|database|service|backend|frontend"
        r"|fleet|runners|environment|app|api)) runs? (?=(?-i:[A-Z])[^,;]{0,30}\d)<what><stop>", "", "what"),
    Row("technology", .85, "run runs",
        r"^(deploys|deployments|builds|ci|ci/cd|production|staging|prod|(the|our) [\w./-]+( [\w./-]+)?) runs? "
        r"(on|in|through|via|from|behind|at) <where><stop>", "", "where"),
)  # fmt: skip

POLICIES = (
    Row("policy", .9, "standard convention policy rule practice guideline",
        r"\b(our|the team's|team) (coding |team |naming )?(standard|convention|policy|rule|practice|guideline) is "
        r"(to )?<rule...>",
        "Team policy: {rule}", "rule"),
    Row("policy", .9, "standard convention policy rule practice guideline",
        r"^our ([\w-]+ ){0,2}(standard|convention|policy|rule|practice|guideline)s? (for <what> )?"
        r"(is|are|requires?|says?( that)?) <rule...>"),
    Row("policy", .85, "rule policy convention guideline standard",
        r"^we have an? ([\w-]+ )?(rule|policy|convention|guideline|standard)(:| that| to) <rule...>",
        "Team policy: {rule}"),
    Row("policy", .85, "always+we",
        r"\bwe <adv>((should|must) )?<how=always> <verb=use|include|add|check> <what><end><contrast>",
        "Team policy: {how} {verb} {what}[, not {but}]", "what"),
    Row("policy", .85, "never+we",
        r"\bwe <adv>((should|must) )?<how=never> <verb=use|include|add|check> <what><stop>",
        "Team policy: {how} {verb} {what}", "what"),
    Row("policy", .85, "never+any don't+any",
        r"^we (should )?(never|don't) use <what=`?any`?>$",
        "Team policy: never use {what}", "what"),
    Row("policy", .85, "always+we never+we",
        r"\bwe <adv>((should|must) )?<how=always|never> <rule...>",
        "Team policy: {how} {rule}"),
    Row("policy", .85, "only+we",
        r"\bwe <adv>((should|must) )?only (?=(use|support|deploy|accept|allow|merge|ship|target|store|log)\b)<rule...>",
        "Team policy: only {rule}"),
    Row("policy", .85, "should+not must+not shouldn't mustn't",
        r"\bwe <adv><how=should not|must not|shouldn't|mustn't> <rule...>",
        "Team policy: {how} {rule}"),
    Row("policy", .85, "should+we must+we",
        r"\bwe <adv><how=should|must> <verb=use|include> (?!a |an |the |more |some )<what><end><contrast>",
        "Team policy: {how} {verb} {what}[, not {but}]", "what"),
    Row("policy", .85, "always never",
        r"^(please |and |also |make sure (to|you|that you) |you (should|must) |I (want|need) you to "
        r"|I('d| would) like you to ){0,2}<how=always|never> (?!\w+[^us]s\b)<rule...>",
        "{how} {rule}"),
    Row("policy", .85, "always never",
        r"^(when|whenever|before|after|for|in) [^,]{3,80}, (please )?(always|never) \S+ \S"),
    Row("policy", .85, "ever",
        r"^(please )?(don't|do not) ever <rule...>",
        "Never {rule}"),
    Row("policy", .9, "from+now from+here going+forward moving+forward future+in",
        r"^(and |please )?(from now on|from here on( out)?|going forward|moving forward|in (the )?future),? (please )?"
        r"<rule...>",
        "{rule}"),
    Row("policy", .85, both("all every each any no", "must should has have need needs may"),
        r"^(all|every|each|any|no) (new |public )?<what> (must|should|has to|have to|needs? to|may)( not)?"
        r"( only| always| never)? <rule...>"),
    Row("policy", .85, both("must should", "not never always only"),
        r"^(?!(the|an?|this|that|it|you|we|i)\b)<what> (must|should) (not|never|always|only) <rule...>"),
    Row("policy", .85, "require requires",
        r"^(we|our ([\w-]+ ){0,2}[\w-]+) requires? <rule...>"),
    Row("policy", .8, both("prefer", "over to instead rather"),
        r"^(please )?prefer <what> (over|to|instead of|rather than) <than><end>", "", "what than"),
    Row("policy", .8, both("use", "not instead rather"),
        r"^(please )?use (?!a |an |the )<what>,? (not|instead of|rather than) (?!a |an |the )<than><end>",
        "", "what than"),
    Row("policy", .8, "keep",
        r"^(please )?keep (?!the |this |it |an? )<what> "
        r"(short|small|brief|concise|simple|focused|minimal|flat|pure|thin)<stop>", "", "what"),
    Row("policy", .8, "avoid stop",
        r"^(please )?(avoid|stop (using|adding|writing)) (?!the |an? |any |\w+ing )<what><stop>", "", "what"),
    Row("policy", .8, both("don't not", "use add write include commit mock log import"),
        r"^(please )?(don't|do not) (use|add|write|include|commit|mock|log|import) "
        r"(?!the |an? |this |that |any\w* |more |it\b|my |your )<what><stop>", "", "what"),
    Row("policy", .8, "we+don't we+not",
        r"^we (don't|do not) "
        r"(?!use |know|have|need|want|see|think|understand|get|care|really|yet|even|seem|remember|like)<rule...>"),
    Row("policy", .8, both("use", "all every everything any each"),
        r"^(please )?use (?!a |an |the )<what> for (all|every|everything|any|each) <aim...>"),
    Row("policy", .85, both("every each", "commit push merge release deploy pr change migration edit session task"),
        r"^(please |for this (repo|project)[,:]? ){0,2}"
        r"(run|write|add|update|use|format|test|sign|tag|squash|rebase|bump)\b[^,]{1,80} "
        r"(before|after|for|on|in|with|to|at) (every|each) "
        r"(commit|push|merge|release|deploy|pr|change|migration|edit|session|task)<end>"),
    Row("policy", .8, both("answer reply respond speak talk", "in"),
        r"^(please )?(answer|reply|respond|speak|talk)( to me)? in (?=(?-i:[A-Z]))<what><stop>", "", "what"),
    Row("policy", .85, "ask+before",
        r"^(please )?ask (me |first |(?-i:[A-Z])[\w'-]+ )?before (?!we )<rule...>"),
    Row("policy", .85, both("ship release launch deliver live done", "by"),
        r"^((my|our|the) [\w ]{2,30}? (says?|said|told us|wants) (that )?)?"
        r"we (must|have to|need to) <what=ship|release|launch|deliver|go live|be done>( \w+){0,4}? by "
        r"<when=(?-i:(?=[\w ]{0,12}(\d|[A-Z])))[\w. ]{2,24}?><stop>",
        "Deadline: must {what} by {when}"),
)  # fmt: skip

DECISIONS = (
    Row("decision", .85, "decided chose",
        r"\bwe('ve| have)? <adv>(decided|chose) to <choice...?>( (because|since) <reason=.{2,250}>)?$",
        "Team decided to {choice}[ because {reason}]", "choice"),
    Row("decision", .85, "decided+that agreed+that",
        r"\bwe('ve| have)? <adv><verb=decided|agreed> that (?=\S+ \S)<choice...>",
        "Team {verb} that {choice}"),
    Row("decision", .85, "agreed opted",
        r"\bwe('ve| have)? <adv><verb=agreed|opted> to <choice...>",
        "Team {verb} to {choice}", "choice"),
    Row("decision", .85, "decided chose",
        r"\bI('ve| have)? <adv>(decided|chose) to <choice...>",
        "User decided to {choice}", "choice"),
    Row("decision", .85, "decided agreed settled standardised standardized",
        r"\bwe('ve| have)? <adv><verb=decided|agreed|settled|standardi[sz]ed> <how=on|against> "
        r"(?!(mon|tues|wednes|thurs|fri|satur|sun)day)<choice...>",
        "Team {verb} {how} {choice}", "choice"),
    Row("decision", .85, "chose picked went selected",
        r"\b(we|I)('ve| have)? <adv>(chose|picked|selected|went with) <what> (over|instead of|rather than) <than><end>",
        "", "what than"),
    Row("decision", .85, "chose picked went selected",
        r"\b(we|I)('ve| have)? <adv>(chose|picked|selected|went with) <what> (for|because|as) \S", "", "what"),
    Row("decision", .85, "let's lets",
        r"^let'?s <adv><verb=use|go with|stick with|stick to|switch to|pick|choose> <what> "
        r"(instead of|over|rather than) <than><end>",
        "Decided to {verb} {what} instead of {than}", "what than"),
    Row("decision", .85, "let's lets",
        r"^let'?s <adv><verb=use|pick> (?!a |an |the )<what> <how=for|as> (?!the |this )<aim><stop>",
        "Decided to {verb} {what} {how} {aim}", "what aim"),
    Row("decision", .85, "let's lets",
        r"^let'?s <adv><verb=go with|stick with|stick to> (?!a |an |the )<what> <how=for|as> <aim><stop>",
        "Decided to {verb} {what} {how} {aim}", "what aim"),
    Row("decision", .85, "let's lets",
        r"^let'?s <adv><verb=go with|stick with|stick to> <name=(?-i:[A-Z])[\w.+#-]+>( then)?$",
        "Decided to {verb} {name}", "name"),
    Row("decision", .85, "let's lets",
        r"^let'?s not use <what><stop>",
        "Decided not to use {what}", "what"),
    Row("decision", .85, "workaround+found solution+found fix+found",
        r"\bfound (a |the )?(workaround|solution|fix) for <what> by <way...>",
        "Found workaround for {what} by {way}", "what way", "anyone"),
)  # fmt: skip

LEARNINGS = (
    Row("learning", .85, "cause culprit underlying",
        r"^(the |our )?(root cause|culprit|underlying (cause|issue|problem))( (of|for|behind) <what>)? "
        r"(was|is|turned out to be) (that )?<why...>",
        who="anyone"),
    Row("learning", .85, "cause+root",
        r"^root cause: <why...>",
        who="anyone"),
    Row("learning", .85, both("problem issue bug error failure", "was turned"),
        r"^the (actual |real )?(problem|issue|bug|error|failure)( with <what>)? (was|turned out to be) "
        r"(that|caused by|due to|because of) <why...>",
        who="anyone"),
    Row("learning", .85, "caused+was due+was",
        r"^the <what> was (caused by|due to) <why...>",
        who="anyone"),
    Row("learning", .85, "fixed solved resolved",
        r"^(I |we |I've |we've |finally ){0,2}<verb=fixed|solved|resolved> <what> by <way...>",
        "{verb} {what} by {way}", who="anyone"),
    Row("learning", .85, "workaround+the fix+the solution+the",
        r"^the (workaround|fix|solution)( for <what>)? (was|is) (to )?<way...>",
        who="anyone"),
    Row("learning", .8, "turns+out turned+out",
        r"\b(it )?(turns|turned) out( that)?,? (?!I |you |to )<why...>",
        "{why}", who="anyone"),
    Row("learning", .8, "worth+remembering worth+noting worth+knowing note+later lesson lessons gotcha takeaway",
        r"^(worth (remembering|noting|knowing)|note for later|lessons?( learned)?|takeaway|gotcha)"
        r"( for (next time|later))?: (?=\S+ \S+ \S)<why...>",
        "{why}", who="anyone"),
    Row("learning", .8, "came+from",
        r"^the <what> came from (?=\S+ \S+ \S)<why...>",
        who="anyone"),
    Row("learning", .8, both("because", "happened happens happen appeared appears appear occurred occurs occur"),
        r"^(the |this |our )?<what> (only )?(happen|appear|occur)(s|ed|red)? ([\w-]+ ){0,3}?because "
        r"(?=\S+ \S+ \S)<why...>",
        who="anyone"),
    Row("learning", .8, "which+why",
        r"^(?!(i|we|you|it|this|that|here)\b)(?=.{12,200}, which is why \S+ \S)<why...>",
        who="anyone"),
    Row("learning", .8, both("it", "caused broke triggered"),
        r"^it was <what> that (caused|broke|triggered) <why...>",
        who="anyone"),
    Row("learning", .8, "learned learnt discovered realized realised found+that",
        r"^(we|I)('ve)? (learned|learnt|discovered|realized|realised|found( out)?) (the hard way )?that "
        r"(?!I |you )(?=\S+ \S+ \S)<why...>"),
)  # fmt: skip

#: What a project's own settings are called, and what is known about a person.
_SETTING = (
    "port url uri host hostname domain endpoint branch region zone database schema bucket cluster namespace queue topic"
    " directory folder path file repo repository version timeout limit ttl retention framework language orm stack"
    " editor linter formatter manager bundler runner ci provider registry license licence deadline date codename locale"
    " currency encoding prefix id address channel username handle account budget size threshold interval quota"
)
_TRAIT = (
    "name timezone zone email e-mail username handle account editor shell os system job role title company employer"
    " pronouns birthday language terminal machine laptop locale location"
)

OTHERS = (
    Row("other", .9, both(_TRAIT, "my"),
        rf"^my <trait=([\w-]+ )?({_TRAIT.replace(' ', '|')})> <verb=is|are> <what><stop>",
        "User's {trait} {verb} {what}", "what"),
    Row("other", .9, "call+me",
        r"^(please |you can )?call me <name=(?-i:[A-Z])[\w'-]+>$",
        "User is called {name}", "name"),
    Row("other", .85, "work+i",
        r"^I <adv>work <how=at|on|for|as|in|from|with> <what>((?= and )|<stop>)",
        "User works {how} {what}", "what"),
    Row("other", .85, "live+i",
        r"^I <adv>live in (?!(constant )?(fear|hope|dread|denial|a|an|the)\b)<what>((?= and )|<stop>)",
        "User lives in {what}", "what"),
    Row("other", .85, "based+in",
        r"^I('m| am) <adv>based in <what>((?= and )|<stop>)",
        "User is based in {what}", "what"),
    Row("other", .85, both("i'm am", "a an"),
        r"^I('m| am) <role=an? ([\w./+#-]+ ){0,4}?(engineer|developer|designer|manager|student|researcher|founder"
        r"|scientist|architect|analyst|consultant|freelancer|teacher|writer|admin)>"
        r"( <how=at|in|for|from|based in> <where>)?((?= and )|<stop>)",
        "User is {role}[ {how} {where}]", "where"),
    Row("other", .85, "owns maintains leads reviews approves responsible charge",
        r"^<person> (owns|maintains|leads|reviews|approves|is responsible for|is in charge of) <what><stop>",
        "", "name what"),
    Row("other", .85, both("owner lead manager designer cto ceo pm engineer developer contact maintainer architect",
                            "is"),
        r"^<person> is the ([\w-]+ ){0,3}?"
        r"(owner|lead|manager|designer|cto|ceo|pm|engineer|developer|contact|maintainer|architect)"
        r"( (for|of|on) <thing>)?<stop>", "", "name"),
    Row("other", .85, "is+our are+our",
        r"^<thing> (is|are) (our|the team's) <what><stop>", "", "thing what"),
    Row("other", .85, "called named",
        r"^(the|our) (?!branch )<thing> is (called|named) <what><stop>", "", "what"),
    Row("other", .85, both(_SETTING, "is are"),
        r"^(the|our|my) (?!new |old |current |next |branch )([\w./'-]+ ){0,4}?"
        rf"({_SETTING.replace(' ', '|')})( (for|of|in|on) <thing>)? "
        r"(is|are)( called| named| set to)? <value><stop>", "", "value"),
    Row("other", .85, "our+is our+are",
        r"^our (?!(next|first|last|only|goal|plan|meeting|call|problem|issue|bug|idea)\b)([\w-]+ ){1,4}?(is|are) "
        r"(?!to |at |about |on )(?=(?-i:[^,;]{0,40}[A-Z0-9`/@]))<value><stop>", "", "value"),
    Row("other", .85, both("is are", "in at under"),
        r"^(?=.*\w[./:@])(?!(the |our )?(bug|error|problem|issue|fix|failure|typo)\b)(the |our |all )?<thing> (is|are) "
        r"(in|at|under) (?=\S*[\w/][./:@]\S|\S+/$)<where><stop>", "", "where"),
    Row("other", .85, both("called named", "in"),
        r"^(the |our |all )?<thing> (is|are|lives?) in an? ([\w-]+ ){0,2}?(bucket|database|repo|table|queue|cluster"
        r"|vault|namespace|account|schema|folder|directory|project|workspace|channel) (called|named) <where><stop>",
        "", "where"),
    Row("other", .85, both("changes rotates starts ends happens meets closes opens renews expires", "on at every in"),
        r"^(the|our) <thing> (changes|rotates|starts|ends|happens|meets|closes|opens|renews|expires) (on|at|every|in) "
        r"(?=.{0,20}((mon|tues|wednes|thurs|fri|satur|sun)days|(?<=every )\w|month|quarter|\d{4}))<when><stop>",
        "", "thing"),
    Row("other", .85, "lives live sits resides",
        r"^(?!(the |our )?(function|method|class|bug|error|problem|code)\b)(the |our |all |its )?<thing> "
        r"(lives?|sits?|resides?) (in|at|under|on|behind|inside|next to|alongside) <where><stop>", "", "where"),
)  # fmt: skip

ROWS: tuple[Row, ...] = (*CHANGES, *PREFERENCES, *TEMPORAL, *TECHNOLOGY, *POLICIES, *DECISIONS, *LEARNINGS, *OTHERS)

WISHES = (
    Wish(.95, "remember",
         r"^(please |and |also |so |you should |always ){0,2}remember( this| the following)?([,:]| that| -)? "
         r"(?!(when|how|what|why|if|me|last|where|seeing)\b)"
         r"(to (?=.{0,200}\b(before|after|every|each|when|whenever|never)\b)|(?!to\b))"),
    Wish(.95, "forget", r"^(please |and |also ){0,2}(don't|do not|never) forget([,:]| that)? (?!(to|about|it)\b)"),
    Wish(.95, "save", r"^(please )?save this: ?"),
    Wish(.85, "note mind reference important",
         r"^(please |also ){0,2}((note|keep in mind|bear in mind)(,|:| that)|for future reference[,:]?"
         r"|note to self[,:]?|important[,:]) (?!to\b)"),
    Wish(.8, "fyi heads record", r"^(just )?(fyi|heads up|for the record)[,:]? (?!to\b)"),
)  # fmt: skip
