import StoreCrypto
import StorePlatform

/// Limits of the protocol of key plugins.
enum PluginLimits {
    static let version = 1
    /// The longest line, without its end.
    static let lineBytes = 16 * 1024
    /// Questions and notes of one request.
    static let turns = 32
    /// Characters of a text that is shown.
    static let textCharacters = 512
    /// The longest time that a plugin may take, without the time in which a person is asked.
    static let wait = Duration.seconds(30)
}

/// A line to a plugin: words with one blank between them. Values are in Base64.
struct PluginRequest: ~Copyable {
    private(set) var line = WipedBuffer(capacity: PluginLimits.lineBytes + 1)
    /// Whether a part did not fit.
    private(set) var isTooLong = false

    init(_ words: String) { append(words.utf8) }

    /// Adds ` name=value`.
    mutating func add(_ name: String, _ value: some Collection<UInt8>) {
        append(" \(name)=".utf8)
        add(value)
    }

    mutating func add(_ name: String, _ secret: SecretBytes) {
        append(" \(name)=".utf8)
        secret.withBytes { add($0) }
    }

    /// Adds one value.
    mutating func add(_ value: some Collection<UInt8>) {
        Base64.encode(value) { append(CollectionOfOne($0)) }
    }

    mutating func end() { append("\n".utf8) }

    private mutating func append(_ bytes: some Collection<UInt8>) {
        if bytes.count > line.remaining { isTooLong = true }
        for byte in bytes { line.append(byte) }
    }
}

/// A line of a plugin.
enum PluginReply {
    case prompt(String, isShown: Bool)
    case note(String)
    case blob([UInt8], isTestable: Bool, wrapsAlone: Bool)
    case secret(SecretBytes)
    case foreign
    case text(String)
    case failure(Failure, String)

    /// Why a plugin refused.
    enum Failure: String, CaseIterable {
        /// Something that it needs is absent.
        case absent
        /// The PIN, passphrase or credential is wrong.
        case refused
        /// No further attempt is possible.
        case locked
        /// The request, blob or options cannot be used.
        case invalid
    }

    /// Reads a line; nil for every other line than the protocol has.
    init?(_ line: borrowing WipedBuffer) {
        let reply = line.withBytes { bytes -> PluginReply? in
            let words = bytes.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            guard let verb = words.first else { return nil }
            return Self.read(String(decoding: verb, as: UTF8.self), words.dropFirst().map { bytes[$0.indices] })
        }
        guard let reply else { return nil }
        self = reply
    }

    private static func read(_ verb: String, _ values: [Slice<UnsafeRawBufferPointer>]) -> PluginReply? {
        let flags = values.dropFirst().map { String(decoding: $0, as: UTF8.self) }
        switch (verb, values.count) {
        case ("foreign", 0): return .foreign
        case ("secret", 1): return Base64.secret(values[0]).map { .secret($0) }
        case ("note", 1): return text(values[0]).map { .note($0) }
        case ("text", 1): return text(values[0]).map { .text($0) }
        case ("prompt", 1), ("prompt", 2):
            guard flags.allSatisfy({ $0 == "shown" }) else { return nil }
            return text(values[0]).map { .prompt($0, isShown: !flags.isEmpty) }
        case ("blob", 1...3):
            guard Set(flags).isSubset(of: ["untested", "alone"]), Set(flags).count == flags.count,
                let blob = Base64.secret(values[0])
            else { return nil }
            return .blob(
                blob.withBytes { Array($0) }, isTestable: !flags.contains("untested"),
                wrapsAlone: flags.contains("alone"))
        case ("error", 2):
            guard let failure = Failure(rawValue: String(decoding: values[0], as: UTF8.self)) else { return nil }
            return text(values[1]).map { .failure(failure, $0) }
        default: return nil
        }
    }

    /// A text that is shown: without characters that could control a terminal.
    private static func text(_ value: Slice<UnsafeRawBufferPointer>) -> String? {
        guard let bytes = Base64.secret(value) else { return nil }
        let text = bytes.withBytes { String(decoding: $0, as: UTF8.self) }
        let shown = text.unicodeScalars.filter { !$0.properties.isDefaultIgnorableCodePoint && !$0.isControl }
        return String(String.UnicodeScalarView(shown.prefix(PluginLimits.textCharacters)))
    }
}

extension Unicode.Scalar {
    fileprivate var isControl: Bool {
        [.control, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
    }
}

/// Base64 of RFC 4648, section 4, with padding. Foundation's leaves copies of secrets in ordinary memory.
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let padding = UInt8(ascii: "=")

    static func encode(_ bytes: some Collection<UInt8>, _ put: (UInt8) -> Void) {
        var (bits, count): (UInt32, Int) = (0, 0)
        for byte in bytes {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 6 {
                count -= 6
                put(alphabet[Int(bits >> UInt32(count)) & 63])
            }
        }
        guard count > 0 else { return }
        put(alphabet[Int(bits << UInt32(6 - count)) & 63])
        for _ in 0..<(count == 2 ? 2 : 1) { put(padding) }
    }

    static func text(_ bytes: some Collection<UInt8>) -> String {
        var characters: [UInt8] = []
        encode(bytes) { characters.append($0) }
        return String(decoding: characters, as: UTF8.self)
    }

    /// The bytes of a text; nil for any text that ``encode(_:_:)`` does not make.
    static func secret(_ text: some BidirectionalCollection<UInt8>) -> SecretBytes? {
        let pads = text.reversed().prefix { $0 == padding }.count
        guard text.count.isMultiple(of: 4), pads <= 2, text.count > 0 || pads == 0 else { return nil }
        guard text.count > 0 else { return nil }
        var isValid = true
        let secret = SecretBytes(count: text.count / 4 * 3 - pads) { output in
            var (bits, count, next): (UInt32, Int, Int) = (0, 0, 0)
            for character in text.dropLast(pads) {
                guard let value = value(of: character) else { return isValid = false }
                (bits, count) = (bits << 6 | UInt32(value), count + 6)
                guard count >= 8 else { continue }
                count -= 8
                output[next] = UInt8(truncatingIfNeeded: bits >> UInt32(count))
                next += 1
            }
            isValid = bits & ((1 << UInt32(count)) - 1) == 0
        }
        return isValid ? secret : nil
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
