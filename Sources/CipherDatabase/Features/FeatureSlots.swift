/// The features of a connection, in the order in which the connection calls them.
package enum FeatureSlot: Int, CaseIterable, Sendable {
    /// The names of the library's own tables, which no table of the program may have.
    case ownNames
    /// Statements that are compiled again when a table hides another one.
    case hiddenTables
    /// The capture of a sync.
    case sync
    /// The triggers and rows of full-text tables.
    case fullText
    /// The history of changes.
    case history
    /// The observer of the connection, and what an access reads.
    case watch
    /// The statements of requests and records.
    case records
    /// Rules of the program that a block suspends.
    case suspendedRules
}

/// The slot of one feature, with the type of what the feature keeps for each connection.
package struct FeatureKey<State: AnyObject>: Sendable {
    fileprivate let index: Int

    package init(_ slot: FeatureSlot) { index = slot.rawValue }
}

/// The state of the features for one connection, and the moments for which they have asked.
package struct FeatureSlots {
    /// A feature that is called, with its moments.
    struct Callee {
        fileprivate let index: Int
        let feature: any ConnectionFeature
        fileprivate(set) var moments: FeatureMoments
    }

    /// All moments for which a feature has asked: with one load, a statement finds out that it has nobody to call.
    private(set) var moments: FeatureMoments = []
    /// The features that are called, in the order of their slots.
    private(set) var callees: [Callee] = []
    private var states = [AnyObject?](repeating: nil, count: FeatureSlot.allCases.count)

    init() {}

    /// The state of a feature for the connection; nil where it keeps nothing. A feature without moments may set it.
    package subscript<State>(key: FeatureKey<State>) -> State? {
        get { states[key.index] as? State }
        set {
            states[key.index] = newValue
            setMoments([], of: nil, at: key.index)
        }
    }

    /// Adds a feature that is called at some moments.
    package mutating func add<State: ConnectionFeature>(
        _ state: State, for key: FeatureKey<State>, at moments: FeatureMoments
    ) {
        states[key.index] = state
        setMoments(moments, of: state, at: key.index)
    }

    /// Changes the moments at which a feature is called.
    package mutating func want<State: ConnectionFeature>(
        _ moments: FeatureMoments, _ isWanted: Bool = true, for key: FeatureKey<State>
    ) {
        let former = callees.first { $0.index == key.index }?.moments ?? []
        let next = isWanted ? former.union(moments) : former.subtracting(moments)
        if next != former { setMoments(next, of: self[key], at: key.index) }
    }

    /// Whether statements are reported as they start: to the observer, or to the recording of what an access reads.
    var isWatching: Bool {
        get { moments.contains(.watch) }
        set { if newValue { moments.insert(.watch) } else { moments.remove(.watch) } }
    }

    private mutating func setMoments(_ new: FeatureMoments, of feature: (any ConnectionFeature)?, at index: Int) {
        callees.removeAll { $0.index == index }
        if let feature, !new.isEmpty {
            let place = callees.firstIndex { $0.index > index } ?? callees.endIndex
            callees.insert(Callee(index: index, feature: feature, moments: new), at: place)
        }
        // Whether statements are watched at the moment is set apart from this.
        let watching = isWatching
        moments = callees.reduce([]) { $0.union($1.moments) }
        isWatching = watching
    }
}
