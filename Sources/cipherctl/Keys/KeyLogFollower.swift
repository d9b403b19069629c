import Foundation
import KeyCustody
import ServicePlatform
import StorePlatform

/// The first line of a key log that is shown, as `--since` names it.
enum KeyLogStart {
    case beginning
    /// After the line of this number.
    case number(UInt64)
    /// Seconds since 1970.
    case time(UInt64)

    /// - Throws: ``UsageError`` for a text that is neither a number nor a time.
    init(_ text: String?) throws(UsageError) {
        guard let text else {
            self = .beginning
            return
        }
        if let number = UInt64(text) {
            self = .number(number)
        } else if let date = try? Date(text, strategy: .iso8601), date.timeIntervalSince1970 >= 0,
            RepositoryWork.isOfCalendar(text, date)
        {
            self = .time(UInt64(date.timeIntervalSince1970))
        } else {
            throw UsageError(
                "--since is neither the number of a line nor a time in UTC.",
                hint: "Write: --since 12, or --since 2026-11-28T10:15:30Z")
        }
    }

    func includes(_ entry: KeyLogEntry) -> Bool {
        switch self {
        case .beginning: true
        case .number(let number): entry.number > number
        case .time(let time): entry.time >= time
        }
    }
}

/// Prints the lines of a key log as they are written, until a signal arrives.
struct KeyLogFollower {
    let path: String
    let log: KeyLog
    let since: KeyLogStart
    let console: Console

    /// How long a line may wait until it is printed.
    private static let interval = Duration.milliseconds(500)

    /// - Returns: ``ExitCode/damagedData`` where a line was changed meanwhile, or before.
    func run() throws -> ExitCode {
        Interruption.beginWork()
        let journal = !console.isJSON && Journal.receives(1) ? Journal() : nil
        var last: UInt64 = 0
        var problems: [KeyLogAudit.Problem] = []
        var former: FileStatus?
        while !Interruption.hasArrived {
            let present = try Files.ownStatus(of: log.path)
            // Each reading verifies the whole chain.
            if present?.byteCount != former?.byteCount || present?.modified != former?.modified
                || present?.identity != former?.identity || former == nil
            {
                former = present
                let audit = try log.verify()
                for problem in audit.problems where !problems.contains(problem) {
                    Console.warn("the key log of \"\(path)\" was changed: \(problem)")
                }
                problems = audit.problems
                if let end = audit.entries.last, end.number < last {
                    Console.note("the key log of \"\(path)\" begins anew")
                    last = 0
                }
                for entry in audit.entries where entry.number > last && since.includes(entry) {
                    try print(entry, to: journal)
                }
                last = audit.entries.last?.number ?? last
                try console.output.flush()
            }
            var polling = Polling(
                first: .milliseconds(50), until: .now + Self.interval, isCancelled: { Interruption.hasArrived })
            while (try? polling.next()) == true {}
        }
        return problems.isEmpty ? .ok : .damagedData
    }

    private func print(_ entry: KeyLogEntry, to journal: Journal?) throws {
        guard let journal else {
            return try console.report(
                json: .object([.init(name: "store", value: .string(path))] + entry.members), lines: [entry.summary])
        }
        let fields = [("CIPHERSTORE_STORE", path)] + entry.journalFields
        try journal.send("\(path): \(entry.summary)".withoutControls(), .notice, fields)
    }
}

extension KeyLogEntry {
    /// For people.
    var summary: String {
        let details = details.map { field in
            switch field.value {
            case .number(let number): "\(field.name) \(number)"
            case .word(let word): "\(field.name) \(word)"
            }
        }
        let head = "\(SlotReport.moment(time))  \(event)"
        return (["\(number)  \(head)"] + details + ["by user \(user), process \(process)"]).joined(separator: ", ")
    }

    /// For programs.
    var json: JSON { .object(members) }

    fileprivate var members: [JSON.Member] {
        let details = details.map { field in
            switch field.value {
            case .number(let number): JSON.Member(name: field.name, value: .int(number))
            case .word(let word): JSON.Member(name: field.name, value: .string(word))
            }
        }
        return [
            .init(name: "number", value: .int(number)), .init(name: "time", value: .int(time)),
            .init(name: "event", value: .string(event)),
        ] + details + [.init(name: "process", value: .int(process)), .init(name: "user", value: .int(user))]
    }

    /// For the journal, whose names have capital letters, digits and underscores.
    fileprivate var journalFields: [(name: String, value: String)] {
        members.map { member in
            let name = "CIPHERSTORE_" + member.name.uppercased().replacing("-", with: "_")
            if case .string(let text) = member.value { return (name, text) }
            return (name, member.value.text)
        } + [(name: "CIPHERSTORE_HASH", value: Hex.text(hash))]
    }
}
