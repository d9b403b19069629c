import CipherDatabase
import Foundation

/// Long lists of values. SQLite takes a limited number of parameters, and compiles a statement for each number of them,
/// so a longer list is one parameter, in JSON.
///
/// | the list | what a REAL column is compared with |
/// |---|---|
/// | parameters | integers, exactly |
/// | a query | doubles: SQLite rounds each integer, also one in a text, before it looks for it |
///
/// So a row that a query finds by a double is looked for once more, if the list has an integer that no double stands for.
/// - SeeAlso: <https://www.sqlite.org/json1.html#jeach>, <https://www.sqlite.org/datatype3.html#affinity_of_comparison_operands>
enum ListedValues {
    /// The longest list that is written value by value.
    static let mostParameters = 64

    /// Whether a value is an integer that a REAL column would round.
    static func isRounded(_ term: Term) -> Bool {
        guard case .value(let bound) = term else { return false }
        let integer: Int64? =
            switch bound.value.storage {
            case .int64(let integer): integer
            case .string(let text): Int64(text.trimmingSpaces)
            case .null, .double, .blob: nil
            }
        return integer.map { Int64(exactly: Double($0)) != $0 } ?? false
    }

    /// The query for the values of a list that a REAL column does not round; nil if it rounds none of them.
    static func exactQuery(of terms: [Term]) -> Term? {
        let exact = terms.filter { !isRounded($0) }
        return exact.count == terms.count ? nil : query(of: exact)
    }

    /// A query for the values of a list; nil where anything but a value is in it, or a number that neither JSON nor a
    /// quotient of powers of two can say.
    ///
    /// - Parameter width: How many values make one row.
    static func query(of terms: [Term], width: Int = 1) -> Term? {
        var columns = Array(repeating: ListedColumn(), count: width)
        var json = "["
        for (index, term) in terms.enumerated() {
            guard case .value(let bound) = term,
                let item = columns[index % width].item(of: bound.value)
            else { return nil }
            if index > 0 { json += "," }
            if width > 1 && index % width == 0 { json += "[" }
            json += item
            if width > 1 && index % width == width - 1 { json += "]" }
        }
        json += "]"
        let selected = columns.enumerated().map { index, column in
            width == 1
                ? column.sql(value: "+value", type: "type", path: "$")
                : column.sql(
                    value: "json_extract(value, '$[\(index)]')", type: "json_type(value, '$[\(index)]')",
                    path: "$[\(index)]")
        }
        let arguments = StatementArguments(
            plain: columns.compactMap { $0.parameter?.databaseValue } + [json.databaseValue])
        let query = SQL(sql: "SELECT \(selected.joined(separator: ", ")) FROM json_each(?)", arguments: arguments)
        return Term(.subquery(.literal(LiteralText(query))))
    }

    /// The values without a type in JSON, in one column of a list. JSON has no bytes: all blobs of the column are one
    /// parameter, and each is an array of where its bytes begin and how many it has. JSON has floating-point numbers,
    /// but SQLite does not read all of them exactly: a number is an object with integers.
    private struct ListedColumn {
        private var bytes = Data()
        private var hasBlobs = false
        private var hasDoubles = false

        /// The bytes of all blobs; nil for none. SQLite has no bytes of an empty parameter, so there is one more.
        var parameter: Data? { hasBlobs ? bytes + [0] : nil }

        /// A value as JSON; nil when there is no way.
        mutating func item(of value: DatabaseValue) -> String? {
            switch value.storage {
            // As a parameter of its own, which is refused.
            case .null where value.isUnencodable: return nil
            case .null: return "null"
            case .int64(let number): return String(number)
            // SQLite stores NULL for what is no number.
            case .double(let number) where number.isNaN: return "null"
            case .double(let number) where number.isInfinite: return number < 0 ? "-9e999" : "9e999"
            case .double(let number):
                hasDoubles = true
                return Quotient(number)?.json
            // SQLite's JSON texts end at a NUL.
            case .string(let text): return text.utf8.contains(0) ? nil : ListedValues.json(text)
            case .blob(let blob):
                hasBlobs = true
                bytes += blob
                return "[\(bytes.count - blob.count + 1),\(blob.count)]"
            }
        }

        /// The value as SQL without a type of its own, so that it is converted to the type of the column it is compared
        /// with: `value` is a column of `json_each`, `+value` is none.
        func sql(value: String, type: String, path: String) -> String {
            if !hasBlobs && !hasDoubles { return value }
            var sql = "CASE \(type)"
            if hasBlobs {
                let parts = (0...1).map { "json_extract(value, '\(path)[\($0)]')" }
                sql += " WHEN 'array' THEN substr(?, \(parts[0]), \(parts[1]))"
            }
            if hasDoubles {
                let parts = ["m", "n", "d", "e"].map { "json_extract(value, '\(path).\($0)')" }
                sql += " WHEN 'object' THEN \(parts[0]) * 1.0 * \(parts[1]) / \(parts[2]) / \(parts[3])"
            }
            return sql + " ELSE \(value) END"
        }
    }

    /// A floating-point number as an integer, times a power of two, divided by two more: all exact.
    private struct Quotient {
        /// The greatest power of two that is a positive `Int64`.
        private static let most = 62
        let json: String

        init?(_ number: Double) {
            let bits = number.significand == 0 ? 0 : number.significandWidth
            let exponent = number == 0 ? 0 : Int(number.exponent) - bits
            guard (-2 * Self.most...Self.most).contains(exponent) else { return nil }
            let factor = Int64(
                number == 0 ? 0 : number.significand * Double(sign: .plus, exponent: bits, significand: 1))
            let signed = number.sign == .minus ? -factor : factor
            let divisor = Swift.max(0, -exponent)
            let (first, second) = (Swift.min(divisor, Self.most), Swift.max(0, divisor - Self.most))
            json =
                "{\"m\":\(signed),\"n\":\(Int64(1) << Swift.max(0, exponent)),\"d\":\(Int64(1) << first),"
                + "\"e\":\(Int64(1) << second)}"
        }
    }

    private static func json(_ text: String) -> String {
        var json = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case _ where scalar.value < 32: json += String(format: "\\u%04x", scalar.value)
            default: json.unicodeScalars.append(scalar)
            }
        }
        return json + "\""
    }
}

extension String {
    /// The text without the spaces that SQLite skips before and behind a number.
    fileprivate var trimmingSpaces: Substring {
        func isSpace(_ character: Character) -> Bool {
            character == " " || character.unicodeScalars.allSatisfy { (9...13).contains($0.value) }
        }
        let rest = drop(while: isSpace)
        return rest[..<(rest.lastIndex { !isSpace($0) }.map(rest.index(after:)) ?? rest.startIndex)]
    }
}
