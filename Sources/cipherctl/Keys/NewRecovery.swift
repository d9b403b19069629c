import KeyCustody
import RecoveryShares
import StorePlatform
import StoreTools

/// A new recovery key: shown as a whole, or as shares, which alone can give it again.
struct NewRecovery {
    /// The key in the form in which it opens the store.
    let key: UnlockedKey
    let sheets: [RecoverySheet]
    /// How the key opens the store, as a part of a sentence.
    let noun: String
    /// Nil for shares: then the slot is made of the key that the shares gave.
    private let whole: RecoveryKey?
    private let header: RecoveryShare.Header?

    /// A whole key.
    init() throws {
        let recovery = try RecoveryKey.random()
        (whole, header, noun) = (recovery, nil, "this recovery key")
        sheets = [RecoverySheet(recovery)]
        key = try UnlockedKey(recovery)
    }

    /// A key in shares, whose printed texts were combined.
    init(split: RecoveryOutput.Split) throws {
        let (raw, shares) = try RecoveryShare.makeKey(count: split.count, threshold: split.threshold)
        (whole, header) = (nil, shares.first?.header)
        noun = "\(split.threshold) of these \(split.count) shares"
        sheets = shares.map { RecoverySheet($0) }
        key = try UnlockedKey(
            KeySource(giving: Secret.rawKey(raw).with(slotKind: .recovery), name: RecoveryShareSet.sourceName))
    }

    /// Adds the keyslot.
    func add(to administration: KeyAdministration, _ label: SlotLabel) throws -> Keyslot {
        if let whole { return try administration.add(whole, label: label) }
        return try administration.add(NewSlot(key.secret, kind: .recovery, label: label))
    }

    /// An object of JSON with the lines, between its other members.
    func json(between beginning: String, and end: String) -> SecretText {
        let numbered = sheets.map { sheet in sheet.number.map { "{\"number\": \($0), \"lines\": " } ?? "" }
        let start =
            header.map {
                "\"set\": \"\($0.setText)\", \"threshold\": \($0.threshold), \"recovery_shares\": ["
            } ?? "\"recovery_key\": "
        let parts = [beginning, start, end, "]"] + numbered
        let capacity = parts.reduce(0) { $0 + $1.utf8.count } + sheets.reduce(0) { $0 + $1.jsonBytes + 3 }
        var text = SecretText(capacity: capacity)
        text.append(beginning + start)
        for (index, sheet) in sheets.enumerated() {
            if index > 0 { text.append(", ") }
            text.append(numbered[index])
            sheet.appendJSON(to: &text)
            if header != nil { text.append("}") }
        }
        text.append(header == nil ? end : "]" + end)
        return text
    }
}
