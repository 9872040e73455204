package invoice

// Line is one line of a document. Net is what it adds to the total, without VAT.
type Line struct {
	ID                string      `json:"id,omitzero"`                  // BT-126
	Note              string      `json:"note,omitzero"`                // BT-127
	Object            Identifier  `json:"object,omitzero"`              // BT-128
	Quantity          Decimal     `json:"quantity,omitzero"`            // BT-129
	Unit              string      `json:"unit,omitzero"`                // BT-130: UN/ECE Rec 20 and 21; China: in words
	Net               Decimal     `json:"net,omitzero"`                 // BT-131
	OrderLine         string      `json:"order_line,omitzero"`          // BT-132
	Accounting        string      `json:"accounting,omitzero"`          // BT-133
	Period            *Period     `json:"period,omitzero"`              // BG-26
	Allowances        []Allowance `json:"allowances,omitempty"`         // BG-27, and BG-28 where Charge is set
	Price             Decimal     `json:"price,omitzero"`               // BT-146: of BaseQuantity units, without VAT
	Discount          Decimal     `json:"discount,omitzero"`            // BT-147
	GrossPrice        Decimal     `json:"gross_price,omitzero"`         // BT-148
	BaseQuantity      Decimal     `json:"base_quantity,omitzero"`       // BT-149: absent is 1
	BaseUnit          string      `json:"base_unit,omitzero"`           // BT-150
	GrossBaseQuantity Decimal     `json:"gross_base_quantity,omitzero"` // BT-149 of the gross price, where it is another one
	GrossBaseUnit     string      `json:"gross_base_unit,omitzero"`     // BT-150 of the gross price, where it is another one
	Category          string      `json:"category,omitzero"`            // BT-151
	Rate              Decimal     `json:"rate,omitzero"`                // BT-152: percent
	Tax               Decimal     `json:"tax,omitzero"`                 // China: the VAT of this line
	Name              string      `json:"name,omitzero"`                // BT-153
	Description       string      `json:"description,omitzero"`         // BT-154; China: the specification
	SellerItem        string      `json:"seller_item,omitzero"`         // BT-155
	BuyerItem         string      `json:"buyer_item,omitzero"`          // BT-156
	StandardItem      Identifier  `json:"standard_item,omitzero"`       // BT-157
	Classes           []Class     `json:"classes,omitempty"`            // BT-158
	Origin            string      `json:"origin,omitzero"`              // BT-159: ISO 3166-1 alpha-2
	Attributes        []Attribute `json:"attributes,omitempty"`         // BG-32
	Lines             []Line      `json:"lines,omitempty"`              // XRechnung extension, BG-DEX-01: what this line is made of
}

// Class is a code of an item in a classification; Scheme is UNTDID 7143.
type Class struct {
	Code    string `json:"code,omitzero"`
	Scheme  string `json:"scheme,omitzero"`
	Version string `json:"version,omitzero"`
}

// Attribute is a property of an item.
type Attribute struct {
	Name  string `json:"name,omitzero"`  // BT-160
	Value string `json:"value,omitzero"` // BT-161
}
