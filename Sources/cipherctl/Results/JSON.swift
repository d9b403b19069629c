/// A JSON value whose members keep their order.
enum JSON: Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    case real(Double)
    case string(String)
    case array([JSON])
    case object([Member])
    /// JSON that another program has written, on one line.
    case verbatim(String)

    struct Member: Equatable {
        let name: String
        let value: JSON
    }

    /// An object from pairs.
    static func object(_ pairs: KeyValuePairs<String, JSON>) -> JSON {
        .object(members(pairs))
    }

    /// The members of an object from pairs.
    static func members(_ pairs: KeyValuePairs<String, JSON>) -> [Member] {
        pairs.map { Member(name: $0.key, value: $0.value) }
    }

    static func int(_ value: some BinaryInteger) -> JSON { .integer(Int64(clamping: value)) }

    /// A value, or null.
    static func optional<T>(_ value: T?, _ make: (T) -> JSON) -> JSON { value.map(make) ?? .null }

    /// The value on one line.
    var text: String {
        switch self {
        case .null: return "null"
        case .bool(let value): return value ? "true" : "false"
        case .integer(let value): return String(value)
        case .real(let value): return JSON.number(value)
        case .string(let value): return JSON.quoted(value)
        case .verbatim(let text): return text
        case .array(let values): return "[" + values.map(\.text).joined(separator: ", ") + "]"
        case .object(let members):
            return "{" + members.map { "\(JSON.quoted($0.name)): \($0.value.text)" }.joined(separator: ", ") + "}"
        }
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "null" }
        // A number that is too large is JSON's only form of infinity.
        if value.isInfinite { return value < 0 ? "-1e999" : "1e999" }
        return String(value)
    }

    private static func quoted(_ text: String) -> String {
        // Most texts need no escapes; 0xc2, 0xd8 and 0xe2 begin the characters beyond ASCII that control a terminal.
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0..<0x20, 0x22, 0x5c, 0x7f, 0xc2, 0xd8, 0xe2: false
            default: true
            }
        }
        if isPlain { return "\"\(text)\"" }
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.steersTerminal:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
