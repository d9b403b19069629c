import Foundation

/// A vector of Keys/conformance: its headers, and its parts as its recipe makes them (Docs/Formats/Vector.md).
struct ConformanceVector: Sendable {
    /// `<kind>/<name>`.
    let name: String
    private(set) var headers: [String: String] = [:]
    private(set) var parts: [String: [UInt8]] = [:]

    /// Why a file is no vector, whatever its verdict would be.
    enum FormError: Error, Hashable {
        case unreadable(String)
        case noFirstLine
        case noEmptyLine
        case notUTF8
        case unknownHeader(String)
        case repeatedHeader(String)
        case malformed(line: String)
        case noSuchPart(String)
        case outOfRange(line: String)
        case unnamedBytes(Int)
        case baseOfBase(String)
        case missingHeader(String)
    }

    static let kinds = [
        "backup", "derivation", "encryption", "header", "keylog", "keyslot", "page", "recovery", "rotation", "shares",
        "sidecar", "sidecar-pair", "standard", "store", "wal",
    ]
    private static let about: Set<String> = [
        "cipherstore-vector", "kind", "expect", "comment", "limit", "base", "needs",
    ]
    private static let inputs: Set<String> = [
        "function", "key", "salt", "passphrase", "passphrase_hex", "passphrase_repeat", "raw_key", "kdf_rounds",
        "kdf_hash", "hmac_hash", "page_bytes", "plaintext_header_bytes", "number", "iv", "plain_stream", "file_bytes",
        "max_frame", "label", "bytes", "log2_n", "r", "p", "memory_kib", "iterations", "lanes",
        "device", "device_secret",
    ]
    private static let results: Set<String> = [
        "key", "sha256", "plain_sha256", "frames", "pages", "uncommitted", "images", "state", "epoch", "generation",
        "data_key", "next_key", "slot", "line", "copy", "notes", "lines", "problems", "acknowledged", "rotating",
        "database_sha256", "damaged_pages", "missing_pages", "zero_pages", "damaged_frames", "misfits",
    ]

    /// - Parameter folder: The folder of the kinds' folders.
    init(_ name: String, in folder: URL) throws {
        guard let data = try? Data(contentsOf: folder.appending(path: "\(name).vector")) else {
            throw FormError.unreadable(name)
        }
        try self.init(name, Array(data), in: folder)
    }

    /// - Parameter isBase: Whether another vector names it as its base.
    init(_ name: String, _ bytes: [UInt8], in folder: URL, isBase: Bool = false) throws {
        self.name = name
        guard let end = bytes.indices.dropLast().first(where: { bytes[$0] == 10 && bytes[$0 + 1] == 10 }) else {
            throw FormError.noEmptyLine
        }
        guard let text = String(validating: bytes[..<end], as: UTF8.self) else { throw FormError.notUTF8 }
        var recipe = Recipe(folder: folder, body: bytes[(end + 2)...])
        let rows = try text.split(separator: "\n", omittingEmptySubsequences: false).map(Self.row)
        guard rows.first.map({ $0 == ("cipherstore-vector", "1") }) ?? false else { throw FormError.noFirstLine }
        if let base = rows.first(where: { $0.key == "base" })?.value {
            guard !isBase else { throw FormError.baseOfBase(base) }
            let inherited = try Self.other(base, in: folder, isBase: true)
            recipe.parts = inherited.parts
            headers = inherited.headers.filter { Self.inputs.contains($0.key) }
        }
        try take(rows, &recipe)
        guard recipe.body.isEmpty else { throw FormError.unnamedBytes(recipe.body.count) }
        parts = recipe.parts
    }

    private static func row(_ line: Substring) throws -> (key: String, value: String) {
        guard let colon = line.firstRange(of: ":") else { throw FormError.malformed(line: String(line)) }
        let value = line[colon.upperBound...]
        return (String(line[..<colon.lowerBound]), String(value.first == " " ? value.dropFirst() : value))
    }

    private mutating func take(_ rows: [(key: String, value: String)], _ recipe: inout Recipe) throws {
        var own: Set<String> = []
        for (key, value) in rows {
            if Recipe.forms[key] != nil {
                try recipe.apply(key, value)
                continue
            }
            let isResult = key.hasPrefix("result_") && Self.results.contains(String(key.dropFirst(7)))
            guard isResult || Self.about.contains(key) || Self.inputs.contains(key) else {
                throw FormError.unknownHeader(key)
            }
            guard own.insert(key).inserted else { throw FormError.repeatedHeader(key) }
            headers[key] = value
        }
    }

    fileprivate static func other(_ name: String, in folder: URL, isBase: Bool) throws -> ConformanceVector {
        guard let data = try? Data(contentsOf: folder.appending(path: "\(name).vector")) else {
            throw FormError.unreadable(name)
        }
        return try ConformanceVector(name, Array(data), in: folder, isBase: isBase)
    }

    // MARK: Values

    var kind: String { headers["kind"] ?? "" }
    var expect: String { headers["expect"] ?? "" }
    /// The results that a correct implementation finds, by name.
    var expectedResults: [String: String] {
        Dictionary(
            uniqueKeysWithValues: headers.filter { $0.key.hasPrefix("result_") }.map {
                (String($0.key.dropFirst(7)), $0.value)
            })
    }

    func text(_ key: String) throws -> String {
        guard let value = headers[key] else { throw FormError.missingHeader(key) }
        return value
    }

    func number(_ key: String) throws -> Int {
        guard let number = Int(try text(key)) else { throw FormError.malformed(line: key) }
        return number
    }

    func bytes(_ key: String) throws -> [UInt8] {
        guard let bytes = Recipe.hex(try text(key)) else { throw FormError.malformed(line: key) }
        return bytes
    }

    func part(_ name: String) throws -> [UInt8] {
        guard let part = parts[name] else { throw FormError.noSuchPart(name) }
        return part
    }

    /// The list of all vectors in a folder, in order.
    static func names(in folder: URL) throws -> [String] {
        try kinds.flatMap { kind in
            try FileManager.default.contentsOfDirectory(atPath: folder.appending(path: kind).path)
                .filter { $0.hasSuffix(".vector") }.map { "\(kind)/\($0.dropLast(7))" }
        }.sorted()
    }
}

/// The lines of a vector that make and change its parts.
private struct Recipe {
    let folder: URL
    var body: ArraySlice<UInt8>
    var parts: [String: [UInt8]] = [:]

    /// No line adds more zeros.
    private static let mostZeros = 16 << 20

    /// The words of each line: names, numbers and digits, and words that stand as they are.
    static let forms = [
        "file": "PART N", "use": "PART from VECTOR PART", "remove": "PART", "flip": "PART N bit N",
        "write": "PART N HEX", "truncate": "PART to N", "append": "PART HEX", "zeros": "PART N",
        "zeros-at": "PART N length N", "swap": "PART N with N length N", "delete": "PART N length N",
        "take": "PART N length N from VECTOR PART N",
    ]

    private struct Words {
        var names: [String] = []
        var numbers: [Int] = []
        var bytes: [UInt8] = []
    }

    init(folder: URL, body: ArraySlice<UInt8>) {
        self.folder = folder
        self.body = body
    }

    static func hex(_ text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            let pair = String(decoding: digits[index...index + 1], as: UTF8.self)
            guard !pair.hasPrefix("+"), let byte = UInt8(pair, radix: 16) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    private static func words(_ key: String, _ value: String) throws -> Words {
        let line = ConformanceVector.FormError.malformed(line: "\(key): \(value)")
        let form = (forms[key] ?? "").split(separator: " ")
        let found = value.split(separator: " ", omittingEmptySubsequences: false)
        guard form.count == found.count else { throw line }
        var words = Words()
        for (expected, word) in zip(form, found) {
            switch expected {
            case "PART", "VECTOR": words.names.append(String(word))
            case "N":
                guard word.allSatisfy(\.isNumber), let number = Int(word) else { throw line }
                words.numbers.append(number)
            case "HEX":
                guard let bytes = hex(String(word)), !bytes.isEmpty else { throw line }
                words.bytes = bytes
            default: if word != expected { throw line }
            }
        }
        return words
    }

    mutating func apply(_ key: String, _ value: String) throws {
        let words = try Self.words(key, value)
        let name = words.names[0]
        switch key {
        case "file":
            guard words.numbers[0] <= body.count else { throw ConformanceVector.FormError.outOfRange(line: value) }
            parts[name] = Array(body.prefix(words.numbers[0]))
            body = body.dropFirst(words.numbers[0])
        case "use": parts[name] = try other(words.names[1], words.names[2])
        case "remove":
            guard parts.removeValue(forKey: name) != nil else { throw ConformanceVector.FormError.noSuchPart(name) }
        default:
            guard var part = parts[name] else { throw ConformanceVector.FormError.noSuchPart(name) }
            try edit(&part, key, value, words)
            parts[name] = part
        }
    }

    private func other(_ vector: String, _ part: String) throws -> [UInt8] {
        try ConformanceVector.other(vector, in: folder, isBase: false).part(part)
    }

    private func edit(_ part: inout [UInt8], _ key: String, _ value: String, _ words: Words) throws {
        let numbers = words.numbers
        /// A range of a part that exists.
        func range(_ start: Int, _ count: Int, in count2: Int) throws -> Range<Int> {
            guard start <= count2, count <= count2 - start else {
                throw ConformanceVector.FormError.outOfRange(line: "\(key): \(value)")
            }
            return start..<start + count
        }
        switch key {
        case "flip":
            let byte = try range(numbers[0], 1, in: part.count)
            _ = try range(numbers[1], 1, in: 8)
            part[byte.lowerBound] ^= 1 << UInt8(numbers[1])
        case "write":
            part.replaceSubrange(try range(numbers[0], words.bytes.count, in: part.count), with: words.bytes)
        case "truncate": part.removeSubrange(try range(numbers[0], part.count - numbers[0], in: part.count))
        case "append": part += words.bytes
        case "zeros": part += [UInt8](repeating: 0, count: try range(0, numbers[0], in: Self.mostZeros).count)
        case "zeros-at":
            let place = try range(numbers[0], numbers[1], in: part.count)
            part.replaceSubrange(place, with: [UInt8](repeating: 0, count: place.count))
        case "swap":
            let first = try range(numbers[0], numbers[2], in: part.count)
            let second = try range(numbers[1], numbers[2], in: part.count)
            let (one, two) = (Array(part[first]), Array(part[second]))
            part.replaceSubrange(first, with: two)
            part.replaceSubrange(second, with: one)
        case "delete": part.removeSubrange(try range(numbers[0], numbers[1], in: part.count))
        default:
            let source = try other(words.names[1], words.names[2])
            let taken = source[try range(numbers[2], numbers[1], in: source.count)]
            part.replaceSubrange(try range(numbers[0], numbers[1], in: part.count), with: taken)
        }
    }
}
