/// Why the bytes of a commit cannot be read, or a commit cannot be written. It never contains a value of a row.
struct CommitError: Error, Hashable, Sendable {
    enum Code: Hashable, Sendable {
        // Bytes that no commit has.
        case truncated
        case trailingBytes
        case unsupportedVersion(UInt8)
        case malformedNumber
        case malformedReference
        case unknownKind(UInt8)
        case unknownFlags(UInt8)
        case unknownValue(UInt64)
        case notANumber
        case notUTF8
        /// The encoder writes the same commit in other bytes.
        case notCanonical

        // Commits that no transaction makes.
        case number
        case previousHash
        case timeTooLate
        case metaTooLong
        case bodyTooLong
        case contextOrder
        case tooManyEvents
        case name
        case columnCount
        case columnOrder
        case cellCount
        case incarnation
        case emptyUpdate
        case columnsOfDeletion
        case seen
        case revival
        case policy
        case dropped
    }

    let code: Code
    /// The offset in the bytes that were read; nil if a program made the commit.
    let offset: Int?

    init(_ code: Code, at offset: Int? = nil) {
        self.code = code
        self.offset = offset
    }
}

extension CommitError: CustomStringConvertible {
    package var description: String {
        let place = offset.map { " at offset \($0)" } ?? ""
        return "commit: \(code.reason)\(place). \(code.remedy)"
    }
}

extension CommitError.Code {
    fileprivate var reason: String {
        switch self {
        case .truncated: "the bytes end in the middle of a value"
        case .trailingBytes: "bytes follow its end"
        case .unsupportedVersion(let version): "it has version \(version)"
        case .malformedNumber: "a number is too large or not in its shortest form"
        case .malformedReference: "a reference has no target"
        case .unknownKind(let byte): "\(byte) is no kind of write or event"
        case .unknownFlags(let byte): "\(byte) has flags without a meaning"
        case .unknownValue(let type): "\(type) is no serial type"
        case .notANumber: "a real is not a number, which SQLite cannot store"
        case .notUTF8: "a text is not UTF-8"
        case .notCanonical: "its bytes are another form of the same commit"
        case .number: "its number is zero or too large"
        case .previousHash: "its number and the hash before it contradict each other"
        case .timeTooLate: "its time is later than any time of a replica"
        case .metaTooLong: "its description has more than \(CommitLimits.metaBytes) bytes"
        case .bodyTooLong: "its body has more than \(CommitLimits.bodyBytes) bytes"
        case .contextOrder: "its context is not in order"
        case .tooManyEvents: "it has more than \(CommitLimits.events) events"
        case .name: "a name is empty, too long, or contains a zero byte"
        case .columnCount: "a table has too many columns, or no key"
        case .columnOrder: "columns are not in order"
        case .cellCount: "a row has another number of values than of columns"
        case .incarnation: "an insertion names its incarnation, or another write does not"
        case .emptyUpdate: "an update changes nothing"
        case .columnsOfDeletion: "a deletion has columns"
        case .seen: "the commits that a write has seen are not in order or lack their tags"
        case .revival: "a revival is no insertion, or its cells are not in order"
        case .policy: "the counters of a policy are not in order"
        case .dropped: "the columns that were dropped are not in order"
        }
    }

    fileprivate var remedy: String {
        switch self {
        case .unsupportedVersion: "Update this program."
        case .truncated, .trailingBytes, .malformedNumber, .malformedReference, .unknownKind, .unknownFlags,
            .unknownValue, .notANumber, .notUTF8, .notCanonical:
            "Fetch the bytes again."
        case .metaTooLong: "Give the commit a shorter description."
        case .bodyTooLong: "Divide the transaction."
        case .number, .previousHash, .timeTooLate, .contextOrder, .tooManyEvents, .name, .columnCount, .columnOrder,
            .cellCount, .incarnation, .emptyUpdate, .columnsOfDeletion, .seen, .revival, .policy, .dropped:
            "Make the commit from the rows of the table again."
        }
    }
}
