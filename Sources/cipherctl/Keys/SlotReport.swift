import CipherStore
import Foundation
import KeyCustody
import StorePlatform

/// Keyslots for people and for programs; never a secret.
enum SlotReport {
    /// A table, one line for each keyslot under a heading.
    static func lines(_ slots: [Keyslot], openedBy: Keyslot?) -> [String] {
        let hasTokens = slots.contains { $0.kind.isToken }
        let heading = ["slot", "kind", "set", hasTokens ? "derivation or device" : "derivation", "label"]
        let rows =
            [heading]
            + slots.map { slot in
                [
                    "\(slot.id)", slot.kind.rawValue, day(slot.created),
                    slot.token.map { $0.name.text } ?? "\(slot.derivation)",
                    slot.label.text
                        + (slot.id == openedBy?.id ? (slot.label == .none ? "" : "  ") + "<- this key" : ""),
                ]
            }
        let widths = heading.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let line = zip(row, widths).map { Help.padded($0, to: $1) }.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
    }

    static func json(_ slot: Keyslot) -> JSON {
        var members: [JSON.Member] = [
            .init(name: "slot", value: .int(slot.id)), .init(name: "kind", value: .string(slot.kind.rawValue)),
            .init(name: "label", value: .string(slot.label.text)), .init(name: "created", value: .int(slot.created)),
        ]
        func add(_ name: String, _ value: JSON) { members.append(.init(name: name, value: value)) }
        switch slot.derivation {
        case .hkdf: add("kdf", .string("hkdf"))
        case .scrypt(let log2Rounds, let blockSize, let lanes):
            add("kdf", .string("scrypt"))
            add("log2_n", .int(log2Rounds))
            add("r", .int(blockSize))
            add("p", .int(lanes))
        case .argon2id(let memoryKiB, let iterations, let lanes):
            add("kdf", .string("argon2id"))
            add("memory_kib", .int(memoryKiB))
            add("iterations", .int(iterations))
            add("lanes", .int(lanes))
        }
        if let token = slot.token {
            add("device", .string(token.name.text))
            add("token_bytes", .int(token.blob.count))
        }
        return .object(members)
    }

    /// A keyslot in a sentence: `slot 2 (key-file "server")`.
    static func name(_ slot: Keyslot) -> String {
        let kind = slot.kind == .plugin ? "plugin \(slot.token?.name.text ?? "")" : slot.kind.rawValue
        return "slot \(slot.id) (\(kind)" + (slot.label == .none ? ")" : " \"\(slot.label)\")")
    }

    /// A keyslot that is gone, in a sentence.
    static func name(_ slot: StoreKeys.Slot) -> String {
        "slot \(slot.number) (\(slot.kind.rawValue)" + (slot.label.isEmpty ? ")" : " \"\(slot.label)\")")
    }

    static func json(_ slot: StoreKeys.Slot) -> JSON {
        .object([
            "slot": .int(slot.number), "kind": .string(slot.kind.rawValue), "label": .string(slot.label),
        ])
    }

    /// A date in UTC.
    static func day(_ secondsSince1970: UInt64) -> String { WallClock.utcDay(secondsSince1970) }

    /// A date and time in UTC.
    static func moment(_ secondsSince1970: UInt64) -> String { WallClock.utc(secondsSince1970) }
}
