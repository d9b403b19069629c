import KeyCustody
import StorePlatform

/// The URI of a token, or of a key on it (RFC 7512), as far as it selects one: `pkcs11:serial=12;object=store`.
struct TokenURI: Hashable, Sendable {
    private(set) var tokenLabel: String?
    private(set) var serial: String?
    private(set) var manufacturer: String?
    private(set) var model: String?
    private(set) var object: String?
    private(set) var id: [UInt8]?
    /// `secret-key` or `private`.
    private(set) var type: String?
    /// The query attribute `module-path`.
    private(set) var modulePath: String?

    /// Reads a URI, or a serial number without `pkcs11:`.
    ///
    /// - Throws: `StoreError` `invalidKey` for attributes that select no token or key, for one that comes twice, and for
    ///   a PIN.
    init(_ text: String) throws(StoreError) {
        guard text.hasPrefix("pkcs11:") else {
            guard !text.isEmpty, !text.contains(where: { ":;?&=%/".contains($0) }) else {
                throw Self.refusal(text, "It begins with something else than \"pkcs11:\".")
            }
            serial = text
            return
        }
        let parts = text.dropFirst("pkcs11:".count).split(
            separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        for part in (parts.first ?? "").split(separator: ";") { try take(part, text) }
        guard parts.count == 2 else { return }
        for part in parts[1].split(separator: "&") { try take(part, text) }
    }

    private mutating func take(_ part: Substring, _ text: String) throws(StoreError) {
        let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2, let bytes = Self.decoded(sides[1]) else {
            throw Self.refusal(text, "\"\(part)\" is not an attribute with a value.")
        }
        let value = String(decoding: bytes, as: UTF8.self)
        let name = String(sides[0])
        switch name {
        case "token": try set(&tokenLabel, value, name, text)
        case "serial": try set(&serial, value, name, text)
        case "manufacturer": try set(&manufacturer, value, name, text)
        case "model": try set(&model, value, name, text)
        case "object": try set(&object, value, name, text)
        case "id": try set(&id, bytes, name, text)
        case "type" where ["secret-key", "private"].contains(value): try set(&type, value, name, text)
        case "module-path": try set(&modulePath, value, name, text)
        case "pin-value", "pin-source":
            throw Self.refusal(
                text, "It has a PIN or its source: the arguments of a process can be read by others.",
                "Give the PIN by a file, a descriptor, a command or at the prompt.")
        default: throw Self.refusal(text, "The attribute \"\(part)\" selects no key.")
        }
    }

    private func set<Value>(
        _ field: inout Value?, _ value: Value, _ name: String, _ text: String
    ) throws(StoreError) {
        guard field == nil else { throw Self.refusal(text, "The attribute \"\(name)\" comes twice.") }
        field = value
    }

    /// The bytes of a value; nil for an invalid escape.
    private static func decoded(_ value: Substring) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = value.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }

    /// Whether a token is one that it selects.
    func selects(_ token: TokenIdentity) -> Bool {
        func fits(_ wanted: String?, _ found: String) -> Bool { wanted.map { $0 == found } ?? true }
        return fits(tokenLabel, token.label) && fits(serial, token.serial) && fits(manufacturer, token.manufacturer)
            && fits(model, token.model)
    }

    private static func refusal(
        _ text: String, _ why: String, _ remedy: String = "For example: pkcs11:serial=0123;object=store"
    ) -> StoreError {
        // The text itself may have a PIN.
        StoreError(.invalidKey, what: "The URI of the PKCS#11 key cannot be used.", why: why, remedy: remedy)
    }
}

/// The names that a token gives itself.
struct TokenIdentity: Hashable, Sendable, CustomStringConvertible {
    let label: String
    let serial: String
    let manufacturer: String
    let model: String

    var description: String { "\"\(label)\" (serial \(serial))" }
}
