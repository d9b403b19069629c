import StoreCrypto
import StorePlatform

/// The content of a key log, and whether its chain is intact.
package struct KeyLogAudit: Hashable, Sendable {
    /// A line that was changed, or is not where it was written.
    package struct Problem: Hashable, Sendable, CustomStringConvertible {
        /// The file, without its folder.
        package let file: String
        /// The number of the line in that file, from 1.
        package let line: Int
        package let reason: String

        package var description: String { "\(file), line \(line): \(reason)" }
    }

    /// The lines that could be read, in order.
    package fileprivate(set) var entries: [KeyLogEntry] = []
    /// Findings that a power failure or a full log explains, as sentences.
    package fileprivate(set) var notes: [String] = []
    package fileprivate(set) var problems: [Problem] = []
    /// Problems that a later line acknowledges.
    package fileprivate(set) var acknowledged: [Problem] = []

    /// When an event of this name last happened, in seconds since 1970.
    package func lastTime(of event: KeyEvent) -> UInt64? { entries.last { $0.event == event.name }?.time }

    /// The identifier of the store of which the log is, in hexadecimal; nil where no line has it.
    package var storeID: String? { entries.lazy.reversed().compactMap { $0.word(KeyEvent.storeDetail) }.first }

    /// The highest epoch of a rotation that the log records as completed since the store was last restored; nil for none.
    package var lastEpoch: UInt64? {
        let restored = entries.lastIndex { $0.event == KeyEvent.restored().name } ?? entries.startIndex
        return entries[restored...].filter { entry in
            entry.event == KeyEvent.rotationCompleted(to: 0).name
                || entry.event == KeyEvent.rotationRecovered(to: 0, forward: true).name && entry.isForward
        }.compactMap { $0.number("to") }.max()
    }

    /// A finding that the chain cannot show: lines are missing at its end, or all of them.
    ///
    /// A restored store starts a log of its own at any epoch, and a log that was full has lost its first lines. Neither
    /// is reported.
    /// - Parameter epoch: The epoch of the sidecar.
    /// - Returns: A sentence when rotations must have been logged, and were not.
    package func note(onEpoch epoch: UInt64) -> String? {
        let last = entries.last { entry in
            entry.event == KeyEvent.rotationCompleted(to: 0).name || entry.event == KeyEvent.restored().name
                || entry.event == KeyLogAcknowledgement.eventName
                || entry.event == KeyEvent.rotationRecovered(to: 0, forward: true).name && entry.isForward
        }
        if last?.event == KeyEvent.restored().name { return nil }
        if last == nil, let first = entries.first, first.number > 1 { return nil }
        let recorded = last?.number("to") ?? last?.number("epoch") ?? 1
        guard recorded < epoch else { return nil }
        return "the key log records epoch \(recorded) at most, but the sidecar is at epoch \(epoch): lines were "
            + "removed, or never written"
    }
}

extension KeyLog {
    /// Reads the whole log and checks its chain: every line's own hash, its number, and the hash of the line before.
    ///
    /// A changed, removed, added or reordered line is detected, except at the end: a log whose last lines are missing
    /// is equal to an earlier log. No lock is acquired.
    /// - Throws: ``SystemError`` when a file cannot be read.
    package func verify() throws -> KeyLogAudit {
        let audit = try read()
        // The file may have been renamed between the two readings.
        return audit.problems.isEmpty ? audit : try read()
    }

    private func read() throws -> KeyLogAudit {
        var reader = KeyLogReader()
        let former = try content(of: formerPath)
        if let former { try reader.read(former, file: Files.name(of: formerPath), after: .unknown) }
        if let bytes = try content(of: path) {
            try reader.read(bytes, file: Files.name(of: path), after: former.map { .bytes($0) } ?? .nothing)
        }
        return reader.audit
    }
}

extension KeyLogEntry {
    fileprivate var isForward: Bool {
        details.contains { $0 == .word("direction", "forward") }
    }
}

/// Verifies the chain line by line.
private struct KeyLogReader {
    private(set) var audit = KeyLogAudit()
    private var last: KeyLogEntry?
    private var isFirst = true
    /// Whether the line before the next one could not be read, so that the predecessor is unknown.
    private var isBroken = false

    mutating func read(_ bytes: [UInt8], file: String, after former: KeyLogAcknowledgement.Former) throws {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let open = lines.popLast() ?? []
        var before = try KeyLogAcknowledgement.Content(KeyLogAcknowledgement.Digests(of: former), bytes)
        for (index, line) in lines.enumerated() {
            guard let entry = try KeyLogEntry(reading: Array(line)) else {
                try takeDamage(line, index: index, next: index + 1 < lines.count ? lines[index + 1] : [], file)
                continue
            }
            let count = audit.problems.count
            take(entry, line: index + 1, file)
            if try before.isCovered(by: entry, at: line.startIndex) {
                audit.acknowledged += audit.problems.prefix(count)
                audit.problems.removeFirst(count)
            }
        }
        if !open.isEmpty {
            if let entry = try KeyLogEntry(reading: Array(open)) { take(entry, line: lines.count + 1, file) }
            audit.notes.append("\(file), line \(lines.count + 1) is incomplete: a write was interrupted, or is running")
        }
    }

    /// An unreadable line is explained when the next line records it and follows the last readable one.
    private mutating func takeDamage(
        _ line: ArraySlice<UInt8>, index: Int, next: ArraySlice<UInt8>, _ file: String
    ) throws {
        if let next = try KeyLogEntry(reading: Array(next)), next.event == KeyEvent.logDamaged(bytes: 0).name,
            next.number("bytes") == UInt64(line.count), next.previous == last?.hash ?? KeyLogEntry.beginning
        {
            audit.notes.append("\(file), line \(index + 1) is incomplete: a write was interrupted")
            return
        }
        audit.problems.append(
            KeyLogAudit.Problem(
                file: file, line: index + 1, reason: "it was changed, or is not a line of a key log"))
        isBroken = true
    }

    private mutating func take(_ entry: KeyLogEntry, line: Int, _ file: String) {
        check(entry, line: line, file)
        audit.entries.append(entry)
        last = entry
        isFirst = false
        isBroken = false
    }

    private mutating func check(_ entry: KeyLogEntry, line: Int, _ file: String) {
        func problem(_ reason: String) {
            audit.problems.append(KeyLogAudit.Problem(file: file, line: line, reason: reason))
        }
        guard let last, !isFirst else {
            if isFirst, !isBroken, entry.number > 1 {
                audit.notes.append("lines before number \(entry.number) were dropped when the log was full")
                // A log that was never full has no second file, and starts with number 1.
                if !file.hasSuffix(".1") { problem("the lines before number \(entry.number) are missing") }
            } else if isFirst, entry.number == 1, entry.previous != KeyLogEntry.beginning {
                problem("it claims to be the first line, but is not")
            }
            return
        }
        if isBroken {
            if entry.number <= last.number { problem("it has number \(entry.number) after \(last.number)") }
        } else if entry.number != KeyLogEntry.number(after: last.number) {
            problem("it has number \(entry.number) after \(last.number): lines are missing or in another order")
        } else if entry.previous != last.hash {
            problem("it does not follow the line before: one of the two was replaced")
        }
    }
}

extension KeyLogEntry {
    /// A detail that is a word.
    func word(_ name: String) -> String? {
        for field in details where field.name == name {
            if case .word(let value) = field.value { return value }
        }
        return nil
    }
}
