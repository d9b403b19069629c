import CipherStore
import ChangesetSync
import Foundation
import StorePlatform
import StoreTools

/// `sync status STORE`: what a store has not joined or does not show, and where it stands to its remotes.
struct SyncStatusCommand: SyncCommand {
    static let syntax = CommandSyntax(
        name: "sync status",
        summary: "show what a store has not joined or does not show, and why; exit code 2 when there is anything",
        operands: [SyncAccess.readOperand],
        options: [
            OptionSyntax("--acknowledge", "objects of remotes that cannot be used need no attention from now on")
        ] + SyncAccess.options,
        examples: [
            "cipherctl sync status app.db --key-file app.key", "cipherctl sync status app.db --json --key-file app.key",
        ],
        notes: [
            "It asks no remote: it shows the state after the last exchange. Nothing of it keeps the store from receiving: "
                + "all other commits are joined, and all other rows are shown.",
            "With --acknowledge the objects become notes, for this store alone. No store needs attention for an object that "
                + "somebody has deleted from the remote.",
        ])

    let arguments: ParsedArguments
    var changesFiles: Bool { arguments.has("--acknowledge") }

    init(_ arguments: ParsedArguments) throws { self.arguments = arguments }

    func run(_ access: SyncAccess, _ console: Console) throws -> ExitCode {
        if changesFiles { try access.repository.acknowledgeObjects() }
        let report = try SyncStatusReport(access.repository)
        try console.report(json: report.json(of: access.path), lines: report.lines)
        return report.attention.isEmpty ? .ok : .needsAttention
    }
}

/// The state of a repository in sentences.
struct SyncStatusReport {
    let status: RepositoryStatus
    /// The names of members by their identifiers.
    private let names: [String: String]
    /// This store as a member.
    private let own: RepositoryMember?

    init(_ repository: ChangesetRepository) throws {
        status = try repository.status()
        let members = try repository.members()
        names = Dictionary(uniqueKeysWithValues: members.map { ($0.id, $0.name) })
        own = members.first(where: \.isThisStore)
    }

    /// Whether everything that is known of is joined here, and was sent to every remote. Rows without a commit were not
    /// sent.
    var isInSync: Bool {
        status.readyCount == 0 && !status.hasForeignWrites && !status.remotes.isEmpty
            && status.remotes.allSatisfy { $0.hasExchanged && $0.isUpToDate && $0.problems.isEmpty }
            && !status.obstacles.contains { if case .waiting = $0 { true } else { $0 == .joining } }
    }

    /// The findings for a person.
    var attention: [String] { found.map { SuggestedCommand.completing($0) } }

    private var found: [String] {
        let ready =
            status.readyCount == 0
            ? [] : ["\(CountText.text(status.readyCount, "commit")) can be joined: cipherctl sync pull"]
        return ready + foreign + clockBehind + status.obstacles.filter(\.needsAttention).map(sentence)
            + sentences(status.remotes)
    }

    private var foreign: [String] {
        guard status.hasForeignWrites else { return [] }
        // A run without a remote is an error.
        let command = status.remotes.isEmpty ? "cipherctl sync pull" : "cipherctl sync run"
        return [
            "Rows of tracked tables were perhaps written outside of commits, and were not sent. The next run makes a commit "
                + "of them: \(command)"
        ]
    }

    /// Commits of this store and of others that are ahead of its clock: the clock may be behind.
    private var clockBehind: [String] {
        let authors = status.obstacles.compactMap { obstacle -> String? in
            if case .clockAhead(let author, _) = obstacle { author } else { nil }
        }
        guard authors.contains(status.replica), Set(authors).count > 1 else { return [] }
        return [
            "Commits of this store and of other members are ahead of the clock of this device. If the clock is behind, set it "
                + "right: that ends the notices of clocks that were ahead."
        ]
    }

    /// The objects of some remotes that this store cannot use, and commits that it cannot send.
    func problems(of remotes: [String]) -> [String] {
        sentences(status.remotes.filter { remotes.contains($0.name) }).map { SuggestedCommand.completing($0) }
    }

    private func sentences(_ remotes: [RemoteStatus]) -> [String] {
        membership
            + remotes.flatMap { remote in
                remote.problems.filter { !isOfMembership($0) }.map { Self.sentence($0, at: remote.name) }
            }
    }

    // MARK: Membership

    private var isReader: Bool { own.map { !$0.isRemoved && $0.role == .reader } ?? false }
    private var isRemoved: Bool { own?.isRemoved ?? false }

    /// Whether a problem follows from the rights of this store: no other device ends it.
    private func isOfMembership(_ problem: RemoteStatus.Problem) -> Bool {
        switch problem {
        case .unsent: isReader || isRemoved
        case .unknownSecret: isRemoved
        default: false
        }
    }

    private var membership: [String] {
        let fact: String
        if own?.isRejected ?? false {
            fact = "This store is no member: its invitation was withdrawn, or another device had used it."
        } else if isRemoved {
            fact = "This store is a former member: it gets nothing new, and its later commits are refused."
        } else if isReader, status.remotes.contains(where: { $0.problems.contains(where: isOfMembership) }) {
            fact = "This store is a reader, and has commits: other members refuse them."
        } else {
            return []
        }
        return [
            "\(fact) To send its rows, join again with an invitation as a writer: cipherctl sync join --replace"
        ]
    }

    /// Facts that need no action.
    var notes: [String] {
        status.obstacles.filter { !$0.needsAttention }.map(sentence)
            + status.remotes.flatMap { remote in
                remote.evidence.map {
                    "\(remote.name): object \($0) could not be used. It was acknowledged, or the remote lacks it since."
                }
            }
    }

    private func member(_ id: String) -> String {
        let short = id.prefix(SyncMembersCommand.shownDigits)
        return names[id].flatMap { $0.isEmpty ? nil : "\"\($0)\" (\(short))" } ?? String(short)
    }

    // MARK: Obstacles

    // A command for another device is named without `cipherctl`: it would be completed with the store of this one.

    private func unknownValues(_ table: String, _ column: String, _ rows: Int) -> String {
        "The values of \"\(table)\".\"\(column)\" are not known in \(CountText.text(rows, "row")): the device that made the "
            + "snapshot had dropped the column. Let a device that has the values run: sync snapshot"
    }

    private func sentence(_ obstacle: Obstacle) -> String {
        switch obstacle {
        case .missingTable(let table, let rows): return Self.missing(table: table, rows)
        case .missingColumn(let table, let column, let rows): return Self.missing(column: column, of: table, rows)
        case .unknownValues(let table, let column, let rows): return unknownValues(table, column, rows)
        case .droppedTable(let table, let rows): return Self.dropped(table: table, rows)
        case .droppedColumn(let table, let column, let rows): return Self.dropped(column: column, of: table, rows)
        case .unwritableTable(let table): return Self.unwritable(table: table)
        case .conflict(let table, let reason, let rows):
            return "\(CountText.text(rows, "row")) of \"\(table)\" \(rows == 1 ? "is" : "are") not shown as written "
                + "(\(reason.meaning)): cipherctl sync conflicts"
        case .orphans(let table, let parent, let rows):
            return
                "\(CountText.text(rows, "row")) of \"\(table)\", which is not tracked, \(rows == 1 ? "refers" : "refer") to "
                + "rows of \"\(parent)\" that are not here. Delete or change them, or give the table an ON DELETE action."
        case .waiting(let author, let commits, let missing):
            return
                "\(CountText.text(commits, "commit")) of \(member(author)) \(commits == 1 ? "waits" : "wait") for commit "
                + "\(missing.number) of \(member(missing.author)), which no remote has brought. Let a device that has it "
                + "run `sync run`."
        case .removedMember(let id, let commits):
            return
                "\(CountText.text(commits, "commit")) of \(member(id)) \(commits == 1 ? "is" : "are") not joined: the admin "
                + "who removed it had not received \(commits == 1 ? "it" : "them")."
        case .refusedCommit(let place):
            return
                "Commit \(place.number) of \(member(place.author)) names commits that its author cannot have known, or "
                + "removes a member without the right to. It is kept and not joined. Update the program of that device, or remove the member."
        case .refusedSnapshots(let count):
            return "\(CountText.text(count, "snapshot")) had no valid content. Another device can make one by "
                + "`sync snapshot`."
        case .twoContents(let author):
            return
                "\(member(author)) has made two commits of one number: its store was restored or copied. Both are joined."
        case .joining: return "A join has begun and has not ended. Continue it: cipherctl sync pull"
        case .clockAhead(let author, let lead):
            let time = AgeText.text(UInt64(max(0, lead.components.seconds)))
            if author == status.replica {
                return
                    "This store made a commit with a clock that was \(time) ahead. Its later commits follow that time, and "
                    + "win over concurrent ones until then, except in cells that others write meanwhile. To end this, set "
                    + "the clock right, sync, join with a new store, and let an admin remove this member."
            }
            return
                "The clock of \(member(author)) was \(time) ahead. Its later commits follow that time, and win over "
                + "concurrent ones until then, except in cells that others write meanwhile. To end this, let its device sync "
                + "and join with a new store, and remove the former member. If the clock of this device is behind, set it right."
        }
    }

    private static func missing(table: String, _ rows: Int) -> String {
        "The store has no table \"\(table)\", or does not track it: \(CountText.text(rows, "row")) of it "
            + "\(rows == 1 ? "waits" : "wait"). Update the program, or track the table: cipherctl sync init --table T"
    }

    private static func missing(column: String, of table: String, _ rows: Int) -> String {
        "Table \"\(table)\" has no column \"\(column)\", which others have written in "
            + "\(CountText.text(rows, "row")). The values are kept, and shown when the column is there: update the program."
    }

    private static func dropped(table: String, _ rows: Int) -> String {
        "\(CountText.text(rows, "row")) of \"\(table)\" \(rows == 1 ? "was" : "were") written by others after this store "
            + "or a member had dropped the table. The rows are kept, and not shown."
    }

    private static func dropped(column: String, of table: String, _ rows: Int) -> String {
        "Others have written column \"\(column)\" in \(CountText.text(rows, "row")) of \"\(table)\" after this store or "
            + "a member had dropped the column. The values are kept, and not shown."
    }

    private static func unwritable(table: String) -> String {
        "Table \"\(table)\" has rows that others have deleted or changed, and an expression of its definition fails here. "
            + "Open the store by the program that has the functions of the table."
    }

    // MARK: Remotes

    private static func sentence(_ problem: RemoteStatus.Problem, at remote: String) -> String {
        switch problem {
        case .damaged(let object):
            "\(remote): object \(object) is damaged. A device that has its content puts it again by `sync run`."
        case .refused(let object):
            "\(remote): object \(object) has no valid content. The program of a member wrote it, or somebody else who may "
                + "write there. It stays as evidence. Find out who did. Then: cipherctl sync status --acknowledge"
        case .unknownMember(let object):
            "\(remote): the author of object \(object) is not in the list of members. Let a device that knows it run "
                + "`sync run`."
        case .unknownSecret(let object):
            "\(remote): this store lacks the secret of object \(object). Let another member run `sync run`: it passes the "
                + "secret on. If the members lack it too, no member made the object: remove it there."
        case .laterVersion(let object, let version):
            "\(remote): object \(object) has format version \(version), which this program does not know. Update it."
        case .unsent(let commits):
            "\(remote) lacks \(CountText.text(commits, "commit")) that this store cannot send. Let a device that has "
                + "\(commits == 1 ? "it" : "them") run `sync run` or `sync snapshot`."
        case .failed(let call):
            "The last exchange with \(remote) failed (\(call)). Its error is shown by: cipherctl sync run"
        }
    }

    private static func text(_ remote: RemoteStatus) -> String {
        guard remote.hasExchanged else { return "nothing was exchanged yet" }
        return (remote.isUpToDate ? "has all commits" : "lacks commits of this store")
            + ", last exchange \(HistoryReport.moment(remote.lastExchange))"
    }

    // MARK: Output

    var remoteLines: [String] {
        status.remotes.isEmpty ? ["none yet"] : status.remotes.map { "\($0.name): \(Self.text($0))" }
    }

    var remotesJSON: JSON { .array(status.remotes.map(Self.json)) }

    var lines: [String] {
        [
            "repository   \(status.repository), \(CountText.text(status.commitCount, "commit"))",
            "this store   \(member(status.replica))",
            "tables       \(CountText.list(status.tables))",
            "head         \(status.head ?? "none")",
        ] + remoteLines.map { "remote       \($0)" } + notes.map { "note         \($0)" }
            + attention.map { "attention    \($0)" }
    }

    func json(of path: String) -> JSON {
        .object([
            "store": .string(path), "repository": .string(status.repository), "member": .string(status.replica),
            "head": .optional(status.head, JSON.string), "commits": .int(status.commitCount),
            "ready": .int(status.readyCount), "foreign_writes": .bool(status.hasForeignWrites),
            "tables": .array(status.tables.map(JSON.string)), "in_sync": .bool(isInSync),
            "obstacles": .array(status.obstacles.map(Self.json)), "remotes": remotesJSON,
            "notes": .array(notes.map(JSON.string)), "attention": .array(attention.map(JSON.string)),
        ])
    }

    private static func json(_ remote: RemoteStatus) -> JSON {
        .object([
            "name": .string(remote.name), "up_to_date": .bool(remote.hasExchanged && remote.isUpToDate),
            "last_exchange": remote.hasExchanged ? .string(HistoryReport.moment(remote.lastExchange)) : .null,
            "problems": .array(
                remote.problems.map { problem in
                    let (kind, object) = problem.parts
                    return .object(["kind": .string(kind), "object": .optional(object, JSON.string)])
                }),
            "evidence": .array(remote.evidence.map(JSON.string)),
        ])
    }

    private static func json(_ kind: String, _ table: String, _ column: String, _ rows: Int) -> JSON {
        .object([
            "kind": .string(kind), "table": .string(table), "column": .string(column), "rows": .int(rows),
        ])
    }

    private static func json(_ obstacle: Obstacle) -> JSON {
        switch obstacle {
        case .missingTable(let table, let rows):
            .object(["kind": .string("missingTable"), "table": .string(table), "rows": .int(rows)])
        case .missingColumn(let table, let column, let rows): json("missingColumn", table, column, rows)
        case .unknownValues(let table, let column, let rows): json("unknownValues", table, column, rows)
        case .droppedTable(let table, let rows):
            .object(["kind": .string("droppedTable"), "table": .string(table), "rows": .int(rows)])
        case .droppedColumn(let table, let column, let rows): json("droppedColumn", table, column, rows)
        case .unwritableTable(let table):
            .object(["kind": .string("unwritableTable"), "table": .string(table)])
        case .orphans(let table, let parent, let rows):
            .object([
                "kind": .string("orphans"), "table": .string(table), "parent": .string(parent), "rows": .int(rows),
            ])
        case .conflict(let table, let reason, let rows):
            .object([
                "kind": .string("conflict"), "table": .string(table), "reason": .string(reason.rawValue),
                "rows": .int(rows),
            ])
        case .waiting(let author, let commits, let missing):
            .object([
                "kind": .string("waiting"), "member": .string(author), "commits": .int(commits),
                "missing_member": .string(missing.author), "missing_number": .int(Int(clamping: missing.number)),
            ])
        case .removedMember(let id, let commits):
            .object(["kind": .string("removedMember"), "member": .string(id), "commits": .int(commits)])
        case .refusedCommit(let place):
            .object([
                "kind": .string("refusedCommit"), "member": .string(place.author),
                "number": .int(Int(clamping: place.number)),
            ])
        case .refusedSnapshots(let count): .object(["kind": .string("refusedSnapshots"), "snapshots": .int(count)])
        case .twoContents(let author): .object(["kind": .string("twoContents"), "member": .string(author)])
        case .joining: .object(["kind": .string("joining")])
        case .clockAhead(let author, let lead):
            .object([
                "kind": .string("clockAhead"), "member": .string(author), "seconds": .int(lead.components.seconds),
            ])
        }
    }
}

extension RemoteStatus {
    /// Whether an exchange has ended, well or not.
    var hasExchanged: Bool { lastExchange.timeIntervalSince1970 > 0 }
}

extension RemoteStatus.Problem {
    /// The kind for programs, and the object.
    var parts: (kind: String, object: String?) {
        switch self {
        case .damaged(let object): ("damaged", object)
        case .refused(let object): ("refused", object)
        case .unknownMember(let object): ("unknownMember", object)
        case .unknownSecret(let object): ("unknownSecret", object)
        case .laterVersion(let object, _): ("laterVersion", object)
        case .unsent: ("unsent", nil)
        case .failed: ("failed", nil)
        }
    }
}

extension SyncConflict.Reason {
    /// For people.
    var meaning: String {
        switch self {
        case .contested: "another row has its key or unique value, or its parent is hidden"
        case .altered: "ON DELETE or the column's type gives another value"
        case .notNull: "NOT NULL"
        case .check: "CHECK"
        case .type: "the type of a column"
        case .unique: "a UNIQUE constraint"
        case .foreignKey: "a FOREIGN KEY"
        case .composed: "several insertions of one key, or columns that are not here"
        case .missingTable: "the table is not here"
        case .otherKey: "its primary key has other columns here"
        case .expression: "an expression of the table fails, or its function is missing"
        }
    }
}
