import CipherStore
import KeyRotation
import StoreTools

let source = KeySource.keyFile(path: "app.key")
let verification = try StoreVerification("app.db", unlockedBy: source).run(
    progress: { print($0.phase, $0.done, $0.total ?? 0) })
if !verification.isSound { print(verification.problems) }
let findings = try StoreExamination("app.db", unlockedBy: source).run().findings  // as `cipherctl doctor`

let store = try SharedStore.open(at: "app.db", unlockedBy: .keyFile(path: "app.key"))
try store.keys.add(.keyFile(path: "second.key"), label: "operator")
let report = try KeyRotation(store).run { print($0) }
