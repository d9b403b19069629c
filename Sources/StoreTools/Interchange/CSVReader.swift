/// Reads records of comma-separated values, as RFC 4180 describes them, from bytes that come in pieces.
///
/// Lines end with LF, CR LF or CR. A byte order mark is skipped. A quote inside an unquoted field is an ordinary
/// character. The memory is that of one record.
/// - SeeAlso: <https://www.rfc-editor.org/rfc/rfc4180>
package struct CSVReader {
    package struct Field: Equatable {
        package let text: String
        /// Whether the field was in quotes: `""` is the empty text, and nothing at all is NULL.
        package let isQuoted: Bool
    }

    package enum Record: Equatable {
        case fields([Field])
        /// The reader continues with the next line.
        case malformed(Fault)
    }

    package enum Fault: Error, Equatable {
        case notUTF8
        case containsNUL
        case textAfterQuote
        case tooManyFields
        /// The input ends inside quotes.
        case openQuote
        /// The record is longer than ``ToolLimits/csvRecordBytes``. Where the next one begins is not known.
        case tooLong

        package var sentence: String {
            switch self {
            case .notUTF8: "it is not UTF-8"
            case .containsNUL: "it contains a NUL byte"
            case .textAfterQuote: "text follows a closing quote"
            case .tooManyFields: "it has more than \(ToolLimits.csvFields) fields"
            case .openQuote: "a quote is not closed before the end of the file"
            case .tooLong: "it is longer than \(ToolLimits.csvRecordBytes >> 20) MiB; a quote may be missing"
            }
        }

        /// Whether nothing can be read after it.
        package var isFinal: Bool { self == .openQuote || self == .tooLong }
    }

    private enum Place {
        case fieldStart
        case unquoted
        case quoted
        /// After a quote in a quoted field: it ends the field, or a second one follows.
        case quoteInQuoted
        /// The rest of a malformed line.
        case skipped
    }

    private let separator: UInt8
    private let read: (UnsafeMutableRawBufferPointer) throws -> Int
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    private var next = 0
    private var end = 0
    private var isAtStart = true
    private var lineEnds = 0
    private var endsWithCR = false
    private var isOver = false

    /// - Parameters:
    ///   - separator: The ASCII character between fields.
    ///   - read: Fills a buffer from its beginning; returns the number of bytes, 0 at the end.
    package init(separator: UInt8, read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) {
        self.separator = separator
        self.read = read
    }

    /// The next record with the number of its first line, from 1 on; nil at the end.
    ///
    /// - Throws: The error of `read`.
    package mutating func nextRecord() throws -> (record: Record, line: Int)? {
        if isOver { return nil }
        if isAtStart { try skipByteOrderMark() }
        try skipLineFeedOfCR()
        let line = lineEnds + 1
        var parts = Parts()
        var place = Place.fieldStart
        var fault: Fault?
        var isEmpty = true
        while let byte = try nextByte() {
            isEmpty = false
            if parts.byteCount > ToolLimits.csvRecordBytes {
                isOver = true
                return (.malformed(.tooLong), line)
            }
            if byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") {
                // The pair is one line end, also if the next piece of the input begins between its two bytes.
                if byte == UInt8(ascii: "\r") || !endsWithCR { lineEnds += 1 }
                endsWithCR = byte == UInt8(ascii: "\r")
                if place != .quoted { return (parts.record(isQuoted: place == .quoteInQuoted, fault), line) }
                parts.append(byte)
                continue
            }
            endsWithCR = false
            step(byte, &place, &parts, &fault)
        }
        isOver = true
        if isEmpty { return nil }
        if place == .quoted { return (.malformed(.openQuote), line) }
        return (parts.record(isQuoted: place == .quoteInQuoted, fault), line)
    }

    private func step(_ byte: UInt8, _ place: inout Place, _ parts: inout Parts, _ fault: inout Fault?) {
        let quote = UInt8(ascii: "\"")
        switch place {
        case .fieldStart where byte == quote: place = .quoted
        case .fieldStart where byte == separator, .unquoted where byte == separator:
            parts.endField(isQuoted: false)
            place = .fieldStart
        case .fieldStart, .unquoted:
            parts.append(byte)
            place = .unquoted
        case .quoted where byte == quote: place = .quoteInQuoted
        case .quoted: parts.append(byte)
        case .quoteInQuoted where byte == quote:
            parts.append(byte)
            place = .quoted
        case .quoteInQuoted where byte == separator:
            parts.endField(isQuoted: true)
            place = .fieldStart
        case .quoteInQuoted:
            fault = .textAfterQuote
            place = .skipped
        case .skipped: break
        }
    }

    private mutating func nextByte() throws -> UInt8? {
        if next == end {
            let read = read
            end = try buffer.withUnsafeMutableBytes { try read($0) }
            next = 0
            if end == 0 { return nil }
        }
        defer { next += 1 }
        return buffer[next]
    }

    /// The LF of a pair whose CR ended the last record.
    private mutating func skipLineFeedOfCR() throws {
        guard endsWithCR else { return }
        endsWithCR = false
        if let byte = try nextByte(), byte != UInt8(ascii: "\n") { next -= 1 }
    }

    private mutating func skipByteOrderMark() throws {
        isAtStart = false
        guard let first = try nextByte() else { return }
        next -= 1
        // The first piece of a file has its first three bytes; a pipe may give fewer, and then there is no mark.
        if first == 0xef, end >= 3, buffer[1] == 0xbb, buffer[2] == 0xbf { next = 3 }
    }

    /// The fields of a record up to the present place.
    private struct Parts {
        private(set) var byteCount = 0
        private var field: [UInt8] = []
        private var fields: [(bytes: [UInt8], isQuoted: Bool)] = []

        mutating func append(_ byte: UInt8) {
            field.append(byte)
            byteCount += 1
        }

        mutating func endField(isQuoted: Bool) {
            // Fields without bytes take memory, too.
            byteCount += 1
            if fields.count <= ToolLimits.csvFields { fields.append((field, isQuoted)) }
            field.removeAll(keepingCapacity: true)
        }

        mutating func record(isQuoted: Bool, _ fault: Fault?) -> Record {
            endField(isQuoted: isQuoted)
            if let fault { return .malformed(fault) }
            if fields.count > ToolLimits.csvFields { return .malformed(.tooManyFields) }
            var texts: [Field] = []
            for field in fields {
                if field.bytes.contains(0) { return .malformed(.containsNUL) }
                guard let text = String(validating: field.bytes, as: UTF8.self) else { return .malformed(.notUTF8) }
                texts.append(Field(text: text, isQuoted: field.isQuoted))
            }
            return .fields(texts)
        }
    }
}
