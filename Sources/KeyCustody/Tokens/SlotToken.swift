/// The part of a keyslot whose secret is elsewhere: a blob from which its device gives the secret back.
///
/// It is not secret. Until the secret has opened the slot, it is not authenticated either: a device must not send a
/// credential to an address that a token names.
package struct SlotToken: Hashable, Sendable {
    /// The name of the plugin, or a description of the token or machine for its owner; it may be empty for the latter.
    package let name: SlotLabel
    /// 1 to 4,096 bytes that only the device understands.
    package let blob: [UInt8]

    /// Nil when the blob is empty or too long.
    package init?(name: SlotLabel, blob: [UInt8]) {
        guard (1...CustodyLimits.tokenBytes).contains(blob.count) else { return nil }
        self.name = name
        self.blob = blob
    }
}

extension SlotToken: CustomStringConvertible, CustomReflectable {
    package var description: String { "SlotToken(\(name), \(blob.count) bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The name of a plugin: 1 to 32 lower-case letters, digits and hyphens, the first of them a letter.
package enum PluginName {
    package static func isValid(_ name: String) -> Bool {
        let bytes = name.utf8
        guard (1...CustodyLimits.pluginNameCharacters).contains(bytes.count), let first = bytes.first,
            isLetter(first)
        else { return false }
        return bytes.allSatisfy { isLetter($0) || $0 == UInt8(ascii: "-") || (0x30...0x39).contains($0) }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
}
